"""Asking engines: one that fails on some queries, one that is down, replies that are kept."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import StageFailed, TransientError
from schemas.search import EngineSettings, Found, SearchQuery, document_key
from tasks.http.client import HttpRequest
from tasks.search.engine import WebAccess
from tasks.search.queries import QuerySettings, open_query_files, search_queries
from tasks.search.results import ask_engine, with_web
from tasks.search.web_engine import WebClient, WebLimits
from tasks.store.dataset import Dataset
from tasks.store.store import Request, Store
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, as_json

LIMITS = WebLimits.model_validate({"retry": {"tries": 2, "base_s": 0.001, "cap_s": 0.01, "timeout_s": 0.2}})


class Asking:
    """Queries for an engine behind an address."""

    def __init__(self, folder: Path, server: ScriptedServer, queries: int = 3) -> None:
        self.store, self.server = Store(folder / "store"), server
        path = folder / "t.json"
        path.write_text(json.dumps({f"q{i}": {"search_query": f"words {i}"} for i in range(queries)}))
        request = Request(search_queries, QuerySettings(), {"files": open_query_files([path])})
        self.queries = self.store.build(request).ref

    def __call__(self, *, force: bool = False, **more: Any) -> Dataset:
        plain: dict[str, Any] = {"engine": "url", "engine_version": 1, "source": self.server.url, "tag": "u"}
        settings = EngineSettings.model_validate(plain | more)
        request = Request(with_web(WebAccess(limits=LIMITS)), settings, {"queries": self.queries})
        return self.store.open(self.store.build(request, force=force).ref)


@pytest.fixture
def asking(tmp_path: Path, server: ScriptedServer) -> Asking:
    return Asking(tmp_path, server)


def answers(seen: Seen, _: int) -> Answer:
    """Nothing for query 0, two papers for query 1, silence on query 2."""
    number = int(seen.json["query"].split()[-1])
    papers = [{"title": f"Paper {i}", "id": f"doi:10.1/{i}"} for i in range(2)] if number == 1 else []
    return Answer(as_json({"results": papers}).body, 200, {}, delay_s=1.0 if number == 2 else 0.0)


def test_an_engine_that_times_out_on_a_query_goes_on(asking: Asking) -> None:
    asking.server.play(answers)
    found = asking()
    outcomes = {row["query_key"]: row for row in found.table("outcomes").to_pylist()}
    assert [(outcomes[f"t/q{i}"]["outcome"], outcomes[f"t/q{i}"]["returned"]) for i in range(3)] == [
        ("empty", 0),
        ("scored", 2),
        ("failed", 0),
    ]
    assert "Timeout" in outcomes["t/q2"]["note"]
    assert [(row["rank"], row["doc_key"]) for row in found.table().to_pylist()] == [
        (1, "doi:10.1/0"),
        (2, "doi:10.1/1"),
    ]
    counts = found.manifest.counts
    assert (counts.read, counts.kept, counts.failed, counts.dropped) == (3, 1, 1, {"empty": 1})


def test_a_service_that_is_down_is_no_result(asking: Asking) -> None:
    asking.server.play([Answer(b"", 503)])
    with pytest.raises(TransientError, match=r"answered none of 3 queries.*HTTP 503"):
        asking()
    asking.server.play([Answer(b"no such key", 403)])
    with pytest.raises(StageFailed, match=r"answered none of 3 queries.*HTTP 403: no such key"):
        asking()
    asking.server.play([as_json({"results": [{"title": "There again"}]})])
    assert asking().manifest.counts.kept == 3


def test_a_service_that_asks_for_a_day_is_left_in_time(server: ScriptedServer) -> None:
    slept: list[float] = []
    server.play([Answer(b"", 429, {"retry-after": "86400"})])
    with (
        closing(WebClient(WebLimits(patience_s=100.0), sleep=slept.append)) as client,
        pytest.raises(TransientError, match=r"HTTP 429.*\(tries: 1\)"),
    ):
        client.ask(HttpRequest(server.url))
    assert slept == []


def test_a_service_out_of_reach_ends_the_stage_after_three_queries(tmp_path: Path, server: ScriptedServer) -> None:
    asking = Asking(tmp_path, server, queries=9)
    server.play([Answer(b"", 503)])
    with pytest.raises(TransientError, match="answered none of 3 queries"):
        asking()
    assert len(server.seen) == 3 * LIMITS.retry.tries


def test_replies_are_kept_and_not_asked_for_again(asking: Asking) -> None:
    asking.server.play([as_json({"results": [{"title": "T"}, {"title": "U"}]})])
    first = asking()
    assert len(first.table("replies")) == len(asking.server.seen) == 3
    again = asking(force=True)
    assert again.table().equals(first.table())
    assert len(asking.server.seen) == 3
    asking(snapshot="later")
    assert len(asking.server.seen) == 6, "another snapshot asks the live service again"


class Broken:
    """An engine of another package with a defect."""

    def search(self, query: str, n: int) -> list[Found]:
        if query == "half":
            return [Found("a \ud800 b\n c", score=float("nan"))] * (n + 5)
        raise ZeroDivisionError(query)


def test_a_defect_is_an_outcome_and_answers_are_cleaned() -> None:
    answer = ask_engine(Broken(), SearchQuery("t/q", "t", "x", {}), 3)
    assert (answer.outcome, answer.note) == ("failed", "ZeroDivisionError: x")
    cleaned = ask_engine(Broken(), SearchQuery("t/q", "t", "half", {}), 3)
    assert cleaned.found == [Found("a ? b c")] * 3


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (Found("T", id="DOI:10.1000/ABC"), "doi:10.1000/abc"),
        (Found("T", id="10.1000/ABC"), "doi:10.1000/abc"),
        (Found("T", id="doi:10.48550/arXiv.2401.00001v2"), "arxiv:2401.00001"),
        (Found("T", url="https://arxiv.org/pdf/2401.00001v3.pdf"), "arxiv:2401.00001"),
        (Found("T", url="https://doi.org/10.1000%2FABC"), "doi:10.1000/abc"),
        (Found("T", id="corpusid:7"), "corpusid:7"),
        (Found("A Title!", id="whatever"), document_key(Found("a  TITLE", url="https://x.example"))),
        (Found("", id="whatever"), "id:whatever"),
        (Found("", url="http://[broken"), "id:http://[broken"),
    ],
)
def test_what_names_a_result(found: Found, key: str) -> None:
    assert document_key(found) == key
