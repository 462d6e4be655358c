"""What is remembered: the cache between processes, sealed replays, misses explained."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput, StoreError
from schemas.llm import Message, Parameters, PromptRef, Request
from schemas.llm_settings import BudgetSettings
from schemas.tables.llm_calls import LLM_CALLS
from tasks.llm.blocking import BlockingDoor
from tasks.llm.budget import Budget
from tasks.llm.cache import Cache
from tasks.llm.database import VERSION, Database
from tasks.llm.door import Door
from tasks.llm.export import export_calls
from tasks.llm.images import read_image
from tasks.llm.replay import Replay, write_replay
from tests.conftest import REPOSITORY
from tests.llm.conftest import GOOD, SECRET, SHORT, Score, capped, question, scored, settings_for
from tests.llm.scripted_server import ScriptedServer, completion, error


def ask_all(settings, requests, secret=SECRET):
    async def many():
        async with Door(settings, secret) as door:
            return await door.ask_all(requests)

    return asyncio.run(many())


def test_a_finished_call_is_not_asked_again(server, settings, tmp_path):
    server.play([completion("fine"), error(500, "oops")])
    first = ask_all(settings(cache=tmp_path / "new" / "c.db"), [question()])
    again = ask_all(settings(cache=tmp_path / "new" / "c.db"), [question()], None)
    assert (again[0].source, again[0].text, again[0].usage) == ("cache", "fine", first[0].usage)
    assert (again[0].raw, again[0].keys, again[0].model) == (first[0].raw, first[0].keys, first[0].model)
    assert len(server.seen) == 1


def test_a_repaired_answer_is_found_whole(server, settings, tmp_path):
    server.play([completion("three"), completion(GOOD), error(500, "oops")])
    first = ask_all(settings(cache=tmp_path / "c.db"), [scored()])
    again = ask_all(settings(cache=tmp_path / "c.db"), [scored()])
    assert again[0].answer == first[0].answer == Score(score=3, why="it fits")
    assert (again[0].keys, again[0].repaired) == (first[0].keys, True)
    assert len(server.seen) == 2


def test_a_failed_call_is_asked_again_and_a_refusal_is_not(server, settings, tmp_path):
    server.play([error(400, "no"), completion(None, refusal="no"), completion("fine")])
    assert [r.outcome for r in ask_all(settings(cache=tmp_path / "c.db", concurrency=1), [question("a")])] == ["failed"]
    assert [r.outcome for r in ask_all(settings(cache=tmp_path / "c.db"), [question("b")])] == ["refused"]
    replies = ask_all(settings(cache=tmp_path / "c.db"), [question("a"), question("b")])
    assert [r.outcome for r in replies] == ["ok", "refused"]
    assert len(server.seen) == 3


def test_several_processes_share_one_cache_and_one_cap(tmp_path):
    """All of them hold the same replies in the end, whoever was first, and together they stay within the cap."""
    command = [sys.executable, "-m", "tests.llm.writing_process", tmp_path / "c.db"]
    running = [
        subprocess.Popen([*command, name, "4000"], stdout=subprocess.PIPE, cwd=REPOSITORY) for name in ("a", "b", "c")
    ]
    told = [json.loads(process.communicate()[0]) for process in running]
    assert told[0]["stand"] == told[1]["stand"] == told[2]["stand"]
    assert len(told[0]["stand"]) == 200
    assert sum(one["afforded"] for one in told) == 400
    (spent,) = Budget(Database(tmp_path / "c.db"), BudgetSettings()).spent()
    assert (spent.calls, spent.tokens) == (400, 4000)


class Recorded(NamedTuple):
    """A sealed run, what was asked, and how it ended."""

    path: Path
    requests: list[Request]
    outcomes: list[str]


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Recorded:
    """A run with an answer, a repaired one, a failed, a refused and an unaffordable call."""

    def script(seen, number):
        if "repair" in seen.json["messages"][0]["content"]:
            return completion(GOOD if len(seen.json["messages"]) > 1 else "three")
        return {"fail": error(400, "no"), "refuse": completion(None, refusal="no")}.get(seen.last, completion(GOOD))

    folder = tmp_path_factory.mktemp("recording")
    server = ScriptedServer(script)
    dear = scored("x" * 5000).model_copy(update={"stage": "poor"})
    requests = [*map(scored, ("good", "repair", "fail", "refuse")), dear]
    budget = capped() | {"stages": {"poor": {"tokens": 100}}}
    cache = folder / "c.db"
    replies = ask_all(settings_for(server, cache=cache, budget=budget), requests)
    assert [r.outcome for r in replies] == ["ok", "ok", "failed", "refused", "over_budget"]
    keys = [key for reply in replies for key in reply.keys]
    ask_all(settings_for(server, cache=cache), [question("not part of the run")])
    server.close()
    assert write_replay(Cache(Database(cache)), folder / "replay.jsonl", keys) == len(keys) == 6
    return Recorded(folder / "replay.jsonl", requests, [reply.outcome for reply in replies])


@pytest.fixture
def recorded(recording, server, tmp_path) -> Recorded:
    """The recording in a folder of the test's own, where nobody may be asked."""
    shutil.copytree(recording.path.parent, tmp_path, dirs_exist_ok=True)
    server.play([error(500, "nobody may ask")])
    return recording._replace(path=tmp_path / recording.path.name)


def test_a_run_is_replayed_without_key_network_or_cache(recorded, server, settings, tmp_path):
    path, requests, outcomes = recorded
    replies = ask_all(settings(replay=path, base_url=server.url), requests, None)
    assert [reply.outcome for reply in replies] == outcomes
    assert [reply.answer and reply.answer.score for reply in replies] == [3, 3, None, None, None]
    assert {reply.source for reply in replies} == {"replay"}
    assert all(reply.reason for reply in replies[2:])
    assert server.seen == []


def test_replay_and_cache_do_without_the_openai_package():
    check = "import sys, tasks.llm.blocking; assert not {'openai', 'httpx2'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", check], cwd=REPOSITORY, check=True)


def test_equal_runs_are_sealed_to_equal_bytes(recorded, tmp_path):
    path, *_ = recorded
    cache = Cache(Database(tmp_path / "c.db"))
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()[1:-1]]
    write_replay(cache, tmp_path / "again.jsonl", reversed(keys))
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()
    assert write_replay(cache, tmp_path / "all.jsonl") == 7


def test_calls_as_parquet(recorded, tmp_path):
    cache = Cache(Database(tmp_path / "c.db"))
    assert export_calls(cache, tmp_path / "calls.parquet") == 7
    table = pq.read_table(tmp_path / "calls.parquet")
    assert table.schema.equals(LLM_CALLS.arrow)
    rows = table.to_pylist()
    assert [row["key"] for row in rows] == sorted(row["key"] for row in rows)
    assert sorted(row["outcome"] for row in rows) == ["failed", "invalid", "ok", "ok", "ok", "over_budget", "refused"]
    for row in rows:
        assert json.loads(row["request"])["model"] == row["model"] == "m"
        assert (row["reason"] is None) == (row["outcome"] == "ok")
        assert row["cost_usd"] == pytest.approx((row["input_tokens"] + row["output_tokens"]) * 1e-6)
    key = rows[0]["key"]
    assert export_calls(cache, tmp_path / "one.parquet", [key]) == 1


def test_a_call_that_is_not_there_cannot_be_sealed(recorded, tmp_path):
    with pytest.raises(StoreError, match="1 of 1 calls are not in the cache"):
        write_replay(Cache(Database(tmp_path / "c.db")), tmp_path / "x.jsonl", ["0" * 64])
    assert not list(tmp_path.glob("*x.jsonl*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("good", "gold"),
        lambda text: text[: len(text) // 2],
        lambda text: "\n".join(text.splitlines()[:-1]),
        lambda text: "\n".join(text.splitlines()[:1] + text.splitlines()[2:]),
        lambda text: text.replace('"version":1', '"version":2'),
        lambda text: "",
        lambda text: "{}",
        lambda text: "no JSON\n" * 5,
    ],
)
def test_a_changed_replay_file_is_refused(recorded, damage):
    path, *_ = recorded
    path.write_text(damage(path.read_text()))
    with pytest.raises(StoreError, match=r"fetch or export|export it again"):
        Replay(path)


@pytest.mark.parametrize(
    ("change", "part", "shown"),
    [
        ({"messages": (Message(role="user", content="good grief"),)}, "messages", "good grief"),
        ({"model": "m-large"}, "model", "m-large"),
        ({"parameters": Parameters(temperature=0.5)}, "parameters", "0.5"),
        ({"prompt": PromptRef("judge", 2, "ab")}, "prompt", "judge"),
        ({"answer": None}, "schema", "null"),
        ({"attempt": 1}, "attempt", "1"),
    ],
)
def test_a_replay_miss_says_which_part_differs(recorded, settings, change, part, shown):
    path, requests, _ = recorded
    asked = requests[0].model_copy(update=change)
    with pytest.raises(BadInput) as raised:
        ask_all(settings(replay=path), [asked], None)
    told = str(raised.value)
    assert f" in {part}: stored " in told
    assert shown in told
    assert "\n" not in told
    others = {"provider", "model", "messages", "parameters", "schema", "prompt", "attempt"} - {part}
    assert not any(f" {other}: stored" in told for other in others)


def test_a_cache_miss_says_which_part_differs(server, settings, tmp_path):
    server.play([completion("fine"), error(400, "no")])
    texts = ["What are mice?", "What are cats?", "Who wrote this?"]
    settings = settings(cache=tmp_path / "c.db", concurrency=1)

    async def explained():
        async with Door(settings, SECRET) as door:
            none = door.explain_miss(question("x"))
            for text in texts:
                await door.ask(question(text))
            near = door.explain_miss(question("What are cows?"))
            other = door.explain_miss(question("What are mice?", parameters=SHORT))
            return none, near, other, door.explain_miss(question(texts[0])), door.explain_miss(question(texts[1]))

    none, near, other, there, failed = asyncio.run(explained())
    assert "nothing is stored" in str(none)
    assert near.nearest != there.key
    assert [d.part for d in near.differences] == ["messages"]
    assert "cats" in near.differences[0].stored
    assert "cows" in near.differences[0].asked
    assert (other.nearest, [d.part for d in other.differences]) == (there.key, ["parameters"])
    assert "would be found" in str(there)
    assert "stored, but failed (HTTP 400: no): asked again" in str(failed)


def test_pictures_count_by_their_content(server, settings, tmp_path):
    server.play([completion("fine")])

    def shown(data):
        image = read_image(b"\xff\xd8\xff" + data, "x")
        return Request(messages=(Message(role="user", content=("What?", image)),), stage="test")

    settings = settings(cache=tmp_path / "c.db", concurrency=1)
    replies = ask_all(settings, [shown(b"a"), shown(b"b"), shown(b"a")])
    assert [reply.source for reply in replies] == ["provider", "provider", "cache"]
    (size,) = Database(tmp_path / "c.db").execute("SELECT max(length(parts)) FROM calls").fetchone()
    assert size < 1000


def test_costs_by_prompt(recorded, tmp_path):
    costs = {row.stage: row for row in Cache(Database(tmp_path / "c.db")).costs()}
    assert (costs["test"].calls, costs["test"].failed) == (6, 1)
    assert costs["test"].usd == pytest.approx(5 * 110e-6)
    assert (costs["poor"].failed, costs["poor"].usd) == (1, 0)


@pytest.mark.parametrize("damage", ["no database at all, just text" * 100, None])
def test_an_unusable_cache_is_one_line(tmp_path, settings, damage):
    path = tmp_path / "c.db"
    if damage is None:
        path.mkdir()
    else:
        path.write_text(damage)
    with pytest.raises(StoreError, match="cannot be used as the cache") as raised:
        Door(settings(cache=path), SECRET)
    assert "\n" not in str(raised.value)


def test_a_newer_cache_is_refused(tmp_path, settings):
    connection = sqlite3.connect(tmp_path / "c.db")
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match="newer program"):
        Door(settings(cache=tmp_path / "c.db"), SECRET)


def test_threads_share_a_blocking_door(server, settings):
    server.play(lambda seen, number: completion(seen.last))
    with BlockingDoor(settings(), SECRET) as door, ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: door.ask(question(f"{n}")).text, range(40)))
        assert texts == [f"{n}" for n in range(40)]
        server.play([error(401, "no")])
        with pytest.raises(BadInput, match="set a valid key"):
            door.ask(question("new"))


@pytest.mark.parametrize(
    "url", ["api.openai.com/v1", "ftp://host/v1", "https://user:hunter2@host/v1", "https://h/v1?k=hunter2"]
)
def test_addresses_hold_no_secrets(settings, url):
    with pytest.raises(ValueError, match="base_url") as raised:
        settings(base_url=url)
    assert "hunter2" not in str(raised.value)
