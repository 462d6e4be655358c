"""Engines on the web, against local servers that answer in those services' formats."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from schemas.errors import BadInput, TransientError, UsageError
from schemas.search import Found
from tasks.search.engine import Engine, all_engines, find_engine
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, as_json
from tests.search.engines.conftest import Desk


def open_engine(name: str, desk: Desk, **more: Any) -> Engine:
    return find_engine(name).open(desk.kit(name, **more))  # pyright: ignore[reportReturnType]


def parameters(seen: Seen) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(seen.path).query).items()}


def s2_page(seen: Seen, total: int) -> Answer:
    asked = parameters(seen)
    offset, limit = int(asked["offset"]), int(asked["limit"])
    papers = [
        {
            "paperId": f"p{i}",
            "corpusId": i,
            "externalIds": {"DOI": f"10.1000/X{i}"} if i % 2 else {"ArXiv": f"2401.0000{i % 10}"},
            "url": f"https://www.semanticscholar.org/paper/p{i}",
            "title": f"Paper {i}",
            "abstract": None if i == 0 else f"About {i}",
        }
        for i in range(offset, min(offset + limit, total))
    ]
    more = {"next": offset + limit} if offset + limit < total else {}
    return as_json({"total": total, "offset": offset, "data": papers, **more})


def test_semantic_scholar_pages_until_enough_and_reads_every_field(server: ScriptedServer, desk: Desk) -> None:
    server.play(lambda seen, _: s2_page(seen, 300))
    engine = open_engine("semantic_scholar", desk, web={"keys": {"semantic_scholar": "k-1"}})
    found = engine.search("non-Markovian reward", 150)
    assert [result.title for result in found] == [f"Paper {i}" for i in range(150)]
    assert found[0] == Found("Paper 0", "", "arxiv:2401.00000", "https://www.semanticscholar.org/paper/p0")
    assert found[1].id == "doi:10.1000/x1"
    asked = [parameters(seen) for seen in server.seen]
    assert [(a["offset"], a["limit"]) for a in asked] == [("0", "100"), ("100", "50")]
    assert asked[0]["query"] == "non Markovian reward"
    assert server.seen[0].headers["x-api-key"] == "k-1"
    assert "a@b.example" in server.seen[0].headers["user-agent"]
    assert desk.intervals == [pytest.approx(1.05)]


def test_semantic_scholar_ends_with_the_last_page_and_with_nothing(server: ScriptedServer, desk: Desk) -> None:
    engine = open_engine("semantic_scholar", desk)
    server.play(lambda seen, _: s2_page(seen, 7))
    assert len(engine.search("few", 20)) == 7
    server.play([as_json({"total": 0, "offset": 0})])
    assert engine.search("none at all", 20) == []
    assert desk.intervals == [pytest.approx(3.1)], "without a key the shared limit is kept"


def test_openalex_reads_inverted_abstracts_and_takes_operators_out(server: ScriptedServer, desk: Desk) -> None:
    works = [
        {
            "id": "https://openalex.org/W1",
            "doi": "https://doi.org/10.48550/arXiv.2401.00001",
            "display_name": "One",
            "abstract_inverted_index": {"to": [1, 3], "Learning": [0], "learn": [2], "bad": ["x", -1, 10**9]},
            "relevance_score": 12.5,
        },
        {"id": "https://openalex.org/W2", "doi": None, "display_name": None, "abstract_inverted_index": None},
    ]
    server.play([as_json({"meta": {"count": 2}, "results": works})])
    engine = open_engine("openalex", desk, web={"keys": {"openalex": "secret-key"}, "mailto": "a@b.example"})
    one, two = engine.search('What is "self-play"? (in NOT games)', 20)
    assert one == Found("One", "Learning to learn to", "arxiv:2401.00001", works[0]["doi"], 12.5)
    assert two == Found("", "", "openalex:w2", "https://openalex.org/W2")
    asked = parameters(server.seen[0])
    assert asked["search"] == "What is self-play in games"
    assert (asked["api_key"], asked["mailto"], asked["per_page"]) == ("secret-key", "a@b.example", "20")
    assert "secret-key" not in json.dumps([reply.question for reply in desk.clients[0].replies])


def test_openalex_pages_by_number(server: ScriptedServer, desk: Desk) -> None:
    def script(seen: Seen, _: int) -> Answer:
        first = (int(parameters(seen)["page"]) - 1) * 100
        return as_json({"results": [{"id": f"https://openalex.org/W{i}"} for i in range(first, min(first + 100, 130))]})

    server.play(script)
    assert len(open_engine("openalex", desk).search("graphs", 250)) == 130
    assert [parameters(seen)["page"] for seen in server.seen] == ["1", "2"]


FEED = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">
<opensearch:totalResults>1</opensearch:totalResults>
<entry><id>http://arxiv.org/abs/2401.00001v3</id><title>A Title
  of Two Lines</title><summary> With &lt;b&gt; &amp; more.
</summary></entry></feed>"""


def test_arxiv_reads_atom(server: ScriptedServer, desk: Desk) -> None:
    server.play([Answer(FEED.encode())])
    found = open_engine("arxiv", desk).search("How to learn, AND learn to rank?", 5)
    assert found == [
        Found("A Title of Two Lines", "With <b> & more.", "arxiv:2401.00001", "http://arxiv.org/abs/2401.00001v3")
    ]
    assert parameters(server.seen[0])["search_query"] == "all:how OR all:learn OR all:rank"
    assert desk.intervals == [3.0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('<!DOCTYPE f [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><feed>&b;</feed>', "safely"),
        ('<!DOCTYPE f SYSTEM "file:///etc/passwd"><feed/>', "safely"),
        ("<html><body>busy</body></html>", "not an Atom feed"),
        ("not xml", "safely"),
        (
            '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>http://arxiv.org/api/errors#x</id>'
            "<title>Error</title><summary>incorrect id format</summary></entry></feed>",
            "incorrect id format",
        ),
    ],
)
def test_arxiv_refuses_what_is_no_answer(server: ScriptedServer, desk: Desk, body: str, message: str) -> None:
    server.play([Answer(body.encode())])
    with pytest.raises(BadInput, match=message):
        open_engine("arxiv", desk).search("learning", 5)


def test_any_address_that_speaks_the_protocol_is_an_engine(server: ScriptedServer, desk: Desk) -> None:
    server.play(
        [as_json({"results": [{"title": "T", "abstract": "A", "id": "doi:10.1/X", "score": 2}, {"title": "U"}]})]
    )
    engine = open_engine("url", desk, source=server.url, web={"keys": {"url": "k"}})
    assert engine.search("some words", 2) == [Found("T", "A", "doi:10.1/X", "", 2.0), Found("U")]
    assert server.seen[0].json == {"query": "some words", "n": 2}
    assert server.seen[0].headers["authorization"] == "Bearer k"
    for wrong in ({"results": [{"abstract": "no title"}]}, {"papers": []}, {"results": {"title": "T"}}, [1]):
        server.play([as_json(wrong)])
        with pytest.raises(BadInput):
            engine.search(f"query {wrong}", 2)
    with pytest.raises(UsageError, match="without user and password"):
        open_engine("url", desk, source="https://me:pw@host/")


def test_a_busy_service_is_waited_for_as_it_asks(server: ScriptedServer, desk: Desk) -> None:
    busy = Answer(b"slow down", 429, {"retry-after": "0.04"})
    server.play([busy, Answer(b"", 503), as_json({"results": []})])
    assert open_engine("url", desk, source=server.url).search("q", 1) == []
    assert desk.waits[0] >= 0.04


def test_troubles_end_as_named_errors_without_secrets(server: ScriptedServer, desk: Desk) -> None:
    engine = open_engine("url", desk, source=server.url, web={"keys": {"url": "top-secret"}})
    for script, error, message, sent in (
        ([Answer(b"x", 500)], TransientError, "HTTP 500.*tries: 3", 3),
        ([Answer(b"{}", 200, delay_s=1.0)], TransientError, "Timeout", 3),
        ([Answer(b'{"results": []}', cut=4)], TransientError, "tries: 3", 3),
        ([Answer(b"no key top-secret", 403)], BadInput, r"HTTP 403: no key (\*\*\*|\[API key\])", 1),
        ([Answer(b"", 302, {"location": "http://elsewhere.example/"})], BadInput, "HTTP 302", 1),
        ([Answer(b" " * 200_000)], BadInput, "longer than 100,000", 1),
        ([Answer(b"[" * 5000)], BadInput, "not JSON", 1),
    ):
        server.play(script)
        server.seen.clear()
        with pytest.raises(error, match=message) as raised:
            engine.search(message, 1)
        assert len(server.seen) == sent
        assert "top-secret" not in str(raised.value)


def test_a_remembered_reply_is_not_asked_for_again(server: ScriptedServer, desk: Desk) -> None:
    server.play(lambda seen, _: s2_page(seen, 5))
    first = open_engine("semantic_scholar", desk).search("graphs", 5)
    desk.known |= {reply.key: reply for reply in desk.clients[0].replies}
    assert open_engine("semantic_scholar", desk).search("graphs", 5) == first
    assert len(server.seen) == 1
    open_engine("semantic_scholar", desk).search("trees", 5)
    assert len(server.seen) == 2


def test_every_engine_says_what_it_is() -> None:
    assert {"arxiv", "bm25", "dense", "file", "hybrid", "openalex", "semantic_scholar", "url"} <= set(all_engines())
    assert all(engine.description.endswith(".") and engine.version >= 1 for engine in all_engines().values())
