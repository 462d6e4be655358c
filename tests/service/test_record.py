"""The record: every call is in it, it outlives the server, and a changed or missing row is found."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from flows.service.serve import make_desk
from schemas.settings import Resources
from tasks.exports.edition import open_edition
from tasks.exports.exporter import find_exporter
from tasks.ranking.runs import SystemSettings, run
from tasks.service.editions import Means
from tasks.service.record import FILE, export_calls, open_record, record_problems
from tasks.service.service import ServiceSettings
from tasks.store.editions import Editions
from tasks.store.store import Request, Store
from tests.service.conftest import EDITION, Served, Start, running
from tests.service.test_contract import call
from tests.service.test_mcp import with_client


def finish(served: Served, run: dict[str, str]) -> dict[str, object]:
    with served.client(run["run_token"]) as client:
        reply = client.post(f"/v1/runs/{run['run']}/finish")
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_calls_are_recorded_with_what_was_removed(start: Start) -> None:
    served = start()
    (topic,) = served.lease(served.open_run("rows"))
    token = topic["topic_token"]
    hits = call(served, token, "search", query="birds", k=3).json()["hits"]
    call(served, token, "documents", ids=[900])
    call(served, token, "citations", id=hits[0]["corpus_id"])
    call(served, token, "submit", ranking=[hits[0]["corpus_id"]])
    rows = [json.loads(line) for line in export_calls(open_record(served.root), EDITION, "tester@rows")]
    assert [(row["sequence"], row["call"], row["status"]) for row in rows] == [
        (1, "open", 200),
        (2, "lease", 200),
        (3, "search", 200),
        (4, "documents", 404),
        (5, "citations", 200),
        (6, "submit", 200),
    ]
    search = rows[2]
    assert search["arguments"] == {"query": "birds", "k": 3, "engine": None}
    assert search["returned"] == [hit["corpus_id"] for hit in hits]
    assert search["removed"]["survey"] > 0 < search["removed"]["date"]
    assert search["quotas_left"]["searches"] == 999 and search["milliseconds"] > 0
    assert rows[4]["removed"]["date"] == 3
    exported = find_exporter("served_calls").write(open_edition(served.root, EDITION), served.root.parent / "calls")
    assert [path.name for path in exported] == ["tester@rows.jsonl"]
    assert [json.loads(line) for line in exported[0].read_text().splitlines()] == rows
    assert token not in json.dumps(rows) and record_problems(served.root, EDITION) == []
    assert token.encode() not in (served.root / FILE).read_bytes()


DAMAGE: list[tuple[str, str]] = [
    (
        "UPDATE calls SET line = replace(line, 'birds', 'fish') WHERE sequence = 3",
        "row 3 of 4 of the record was changed",
    ),
    ("DELETE FROM calls WHERE sequence = 2", "row 2 of 4 of the record is missing"),
    ("DELETE FROM calls WHERE sequence = 4", "row 4 of 4 of the record is missing"),
    ("UPDATE runs SET sequence = 3", "row"),
]


@pytest.mark.parametrize(("damage", "told"), DAMAGE)
def test_a_changed_or_missing_row_is_found(start: Start, damage: str, told: str) -> None:
    served = start()
    run = served.open_run("damaged")
    (topic,) = served.lease(run)
    call(served, topic["topic_token"], "search", query="birds")
    call(served, topic["topic_token"], "submit", ranking=[100])
    with sqlite3.connect(served.root / FILE) as db:
        db.execute(damage)
    (problem,) = record_problems(served.root, EDITION)
    assert problem.what.startswith("run tester@damaged: ") and told in problem.what
    with served.client(run["run_token"]) as client:
        assert client.post(f"/v1/runs/{run['run']}/finish").status_code == 503


def test_a_finished_run_whose_record_was_written_anew_is_found(start: Start) -> None:
    served = start()
    run = served.open_run("rewritten")
    (topic,) = served.lease(run)
    call(served, topic["topic_token"], "submit", ranking=[100])
    finish(served, run)
    assert record_problems(served.root, EDITION) == []
    with sqlite3.connect(served.root / FILE) as db:
        (last,) = db.execute("SELECT hash FROM calls WHERE sequence = 2").fetchone()
        db.execute("DELETE FROM calls WHERE sequence > 2")
        db.execute("UPDATE runs SET sequence = 2, head = ?", (last,))
    (problem,) = record_problems(served.root, EDITION)
    assert "not the one that was there when the run was finished" in problem.what
    with sqlite3.connect(served.root / FILE) as db:
        db.execute("DELETE FROM runs")
    (problem,) = record_problems(served.root, EDITION)
    assert problem.what == "run tester@rewritten: the record is missing"


def test_leases_and_records_go_on_after_a_restart(start: Start) -> None:
    first = start()
    run = first.open_run("restart")
    topics = first.lease(run, 2)
    call(first, topics[0]["topic_token"], "search", query="birds")
    second = start()  # over the same store, while the first still answers
    left = call(second, topics[0]["topic_token"], "search", query="fish").json()["quotas_left"]
    assert left["searches"] == 998
    assert call(second, topics[0]["topic_token"], "submit", ranking=[100]).status_code == 200
    assert call(first, topics[0]["topic_token"], "submit", ranking=[100]).status_code == 409
    assert len(second.lease(run, 9)) == 1
    assert finish(second, run)["outcomes"] == {"scored": 1, "empty": 2}
    assert record_problems(first.root, EDITION) == []


def test_a_run_that_was_being_finished_is_finished_later(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    served = start()
    run = served.open_run("later")
    (topic,) = served.lease(run)
    call(served, topic["topic_token"], "submit", ranking=[100, 101])
    taken = served.desk._editing.enter
    monkeypatch.setattr(served.desk, "_editing", served.desk._editing._replace(enter=lambda *_: 1 / 0))
    with served.client(run["run_token"]) as client:
        assert client.post(f"/v1/runs/{run['run']}/finish").status_code == 503
        assert client.get(f"/v1/runs/{run['run']}").json()["state"] == "open"
        assert client.post(f"/v1/runs/{run['run']}/topics").status_code == 409
    monkeypatch.setattr(served.desk, "_editing", served.desk._editing._replace(enter=taken))
    assert finish(served, run)["state"] == "finished"


def test_title_as_plug_in_over_rest_and_over_mcp_ranks_the_same_rows(start: Start) -> None:
    served = start()
    ways: dict[str, Callable[[str, str], list[int]]] = {
        "rest": lambda token, title: [
            hit["corpus_id"] for hit in call(served, token, "search", query=title, k=100).json()["hits"]
        ],
        "mcp": lambda token, title: with_client(served, token, lambda client: _search(client, title)),
    }
    for version, search in ways.items():
        run_ = served.open_run(version)
        for topic in served.lease(run_, 9):
            ranking = search(topic["topic_token"], topic["title"])
            call(served, topic["topic_token"], "documents", ids=ranking[:3])
            assert call(served, topic["topic_token"], "submit", ranking=ranking).json()["outside"] == 0
        finish(served, run_)
    store = Store(served.root)
    slots = Editions(store).load(EDITION).slots
    settings = SystemSettings(baseline="title", baseline_version=1, retriever="bm25", field="abstract", tag="title")
    inputs = {name: slots[name] for name in ("topics", "documents", "surveys")} | {"bm25": slots["bm25/abstract"]}
    own = store.open(store.build(Request(run, settings, inputs), Resources(workers=1)).ref)
    columns = ["topic_id", "corpus_id", "rank"]
    expected = pl.read_parquet(own.files()).select(columns)
    asked = pl.read_parquet(own.files("searches")).select("topic_id", "retriever", "k", "returned", "depth")
    assert len(expected) > 60
    for version in ways:
        submitted = store.open(slots[f"run/tester@{version}"])
        assert pl.read_parquet(submitted.files()).select(columns).equals(expected)
        assert pl.read_parquet(submitted.files("searches")).select(asked.columns).equals(asked)
        steps = pl.read_parquet(submitted.files("steps"))
        assert steps.filter(pl.col("search").is_not_null()).equals(pl.read_parquet(own.files("steps")))
        assert steps.filter(pl.col("search").is_null())["papers"].list.len().to_list() == [3, 3, 3]
        assert f"scores/tester@{version}" in slots


async def _search(client: object, title: str) -> list[int]:
    found = await client.call_tool("search", {"query": title, "k": 100})  # type: ignore[attr-defined]
    return [hit["corpus_id"] for hit in found.structured_content["hits"]]


def test_closing_writes_everything(poisoned: Path, tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "store"
    shutil.copytree(poisoned, root)
    with running(root) as served:
        (topic,) = served.lease(served.open_run("closed"))
        call(served, topic["topic_token"], "search", query="birds")
    with sqlite3.connect(root / FILE) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (3,)
    desk = make_desk(Store(root), Means(), ServiceSettings())
    assert desk.find_topic(topic["topic_token"]).searches == 1
    desk.close()
