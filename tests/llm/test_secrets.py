"""The API key stays where it belongs: in the header of a request."""

import asyncio
import logging
import pickle
import traceback

import pytest

from schemas.errors import BadInput
from schemas.secrets import MARK, learn, redact, redact_bytes
from tasks.llm.cache import Cache
from tasks.llm.database import Database
from tasks.llm.door import Door
from tasks.llm.export import export_calls
from tasks.llm.replay import write_replay
from tests.llm.conftest import KEY, SECRET, question, scored
from tests.llm.scripted_server import Answer, completion, error

ECHOES = [
    completion(f"Your key is {KEY}"),
    completion(None, refusal=f"not with {KEY}"),
    error(400, f"Bearer {KEY} is odd"),
    error(500, f"Bearer {KEY} crashed me"),
    Answer(f"<p>{KEY}</p>".encode(), 503, {"content-type": "text/html"}),
    Answer(f"<p>{KEY}</p>".encode(), 200, {"content-type": "text/html"}),
]


def test_a_secret_that_begins_with_another_one_is_cut_out_whole() -> None:
    learn("short-secret-1", "short-secret-1-and-more", "short-secret")
    assert redact("a short-secret-1-and-more, a short-secret-1") == f"a {MARK}, a {MARK}"
    assert redact_bytes(b"short-secret-1-and-more") == MARK.encode()


def test_no_file_log_or_reply_holds_the_key(server, settings, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    server.play(lambda seen, number: ECHOES[int(seen.json["messages"][0]["content"])])
    settings = settings(cache=tmp_path / "c.db", concurrency=1)

    async def many():
        async with Door(settings, SECRET) as door:
            replies = await door.ask_all([f(f"{i}") for i in range(len(ECHOES)) for f in (question, scored)])
            return replies, repr(door), repr(vars(door))

    replies, *shown = asyncio.run(many())
    assert {reply.outcome for reply in replies} == {"ok", "refused", "failed", "invalid"}
    assert replies[0].text == "Your key is [API key]"
    cache = Cache(Database(tmp_path / "c.db"))
    write_replay(cache, tmp_path / "replay.jsonl")
    export_calls(cache, tmp_path / "calls.parquet")
    kept = [path.read_bytes() for path in tmp_path.iterdir()]
    rows = cache._database.execute("SELECT * FROM calls").fetchall()
    everything = [caplog.text, repr(replies), *shown, repr(settings), settings.model_dump_json(), repr(rows)]
    assert len(caplog.records) > 15
    assert KEY in repr(server.seen)
    for text in everything:
        assert KEY not in text
    for data in (*kept, pickle.dumps(replies)):
        assert KEY.encode() not in data


@pytest.mark.parametrize("secret", [KEY, f"{KEY}\r\nx: y", f"{KEY} {KEY}", f"{KEY}é"])
def test_no_exception_holds_the_key(server, settings, secret):
    server.play([error(401, f"Incorrect API key provided: {KEY}")])

    async def once():
        async with Door(settings(), type(SECRET)(secret)) as door:
            await door.ask(question())

    with pytest.raises(BadInput) as raised:
        asyncio.run(once())
    error_ = raised.value
    assert KEY not in "".join(traceback.format_exception(error_))
    chain = [error_, error_.__cause__, error_.__context__]
    assert not any(KEY in f"{e!r}{e and vars(e)}" for e in chain)


def test_a_key_from_a_file_may_end_in_a_line_end(server, settings):
    server.play([completion("fine")])

    async def once():
        async with Door(settings(), type(SECRET)(f"{KEY}\n")) as door:
            return await door.ask(question())

    assert asyncio.run(once()).outcome == "ok"


def test_a_word_that_is_no_secret_is_not_cut_out(server, settings):
    server.play([completion("there is none")])

    async def once():
        async with Door(settings(), type(SECRET)("none")) as door:
            return await door.ask(question())

    assert asyncio.run(once()).text == "there is none"
