"""`arena submit`: a run from outside enters drafts and published editions, and is scored and shown like our own."""

import json
from pathlib import Path

import polars as pl
import pytest

from schemas.manifest import EditionManifest
from tasks.exports.edition import open_edition
from tasks.exports.exporter import find_exporter
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import ONE, Arena

OWN = "title.bm25.abstract"
WHOSE = ("--task", "discovery", "--system", "agent", "--system-version", "1", *ONE)


@pytest.fixture
def run_file(arena: Arena) -> Path:
    """Our own run of the title, as a file of another system."""
    code, _, err = arena("run", "discovery", "--baselines", "title", "--retrievers", "bm25", *ONE)
    assert code == 0, err
    find_exporter("trec").write(open_edition(root(arena), "2026-01-06"), arena.folder / "trec")
    return arena.folder / "trec" / "runs" / f"{OWN}.txt"


def root(arena: Arena) -> Path:
    return arena.folder / "store"


def edition(arena: Arena) -> EditionManifest:
    return Editions(Store(root(arena))).load("2026-01-06")


def rankings(path: Path) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for line in path.read_text().splitlines():
        topic, _, document, *_ = line.split()
        found.setdefault(int(topic), []).append(int(document))
    return found


def write_jsonl(path: Path, found: dict[int, list[int]], **header: object) -> Path:
    lines: list[object] = [header] if header else []
    lines += [{"topic": topic, "ranking": ranking} for topic, ranking in found.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_our_own_run_as_a_file_has_our_own_scores_and_enters_the_report(arena: Arena, run_file: Path) -> None:
    found = arena.json("submit", run_file, *WHOSE)
    assert found["run"] == "agent@1"
    assert found["topics"] == found["handed_in"] == found["outcomes"]["scored"] > 0
    assert found["violations"] == {"unavailable": 0, "duplicate": 0}
    opened = open_edition(root(arena), "2026-01-06")
    ours, theirs = (opened.dataset(f"scores/{tag}") for tag in (OWN, "agent@1"))
    for table in ("part", "summaries"):
        own, other = (pl.read_parquet(dataset.files(table)).drop("tag") for dataset in (ours, theirs))
        assert own.equals(other)
    same = ["topic_id", "corpus_id", "rank"]
    own, other = (pl.read_parquet(opened.dataset(f"run/{tag}").files()) for tag in (OWN, "agent@1"))
    assert own.select(same).equals(other.select(same))
    assert found["outside"] == len(own)

    report = arena.json("report", "--to", arena.folder / "report")
    page = Path(report["report"]).read_text()
    assert "agent 1 " in page and "submitted, own tools" in page
    assert "agent@1" in (arena.folder / "report" / "tables" / "discovery.csv").read_text()


def test_a_published_edition_takes_new_runs_and_stays_as_it_was(arena: Arena, run_file: Path) -> None:
    code, _, err = arena("edition", "publish", "2026-01-06")
    assert code == 0, err
    before = edition(arena)
    found = arena.json("submit", run_file, *WHOSE)
    after = edition(arena)
    assert after.published == before.published
    assert after.slots == before.slots | {slot: after.slots[slot] for slot in ("run/agent@1", "scores/agent@1")}
    assert arena.json("submit", run_file, *WHOSE)["datasets"] == found["datasets"], "the same again is the same"

    changed = write_jsonl(arena.folder / "changed.jsonl", {t: r[::-1] for t, r in rankings(run_file).items()})
    code, _, err = arena("submit", changed, *WHOSE)
    assert code == 2
    assert "has another run agent@1 (run/agent@1); give the changed system another version" in err
    assert edition(arena) == after
    assert arena("edition", "verify", "2026-01-06")[0] == 0


def test_forbidden_documents_are_removed_or_refuse_the_run(arena: Arena, run_file: Path) -> None:
    found = rankings(run_file)
    topic, ranking = next(iter(found.items()))
    found[topic] = [topic, 10**12, ranking[0], *ranking]
    header = {"system": {"name": "agent", "version": "2", "kind": "closed"}, "task": "discovery"}
    path = write_jsonl(arena.folder / "bad.jsonl", found, **header)
    slots = edition(arena).slots
    code, _, err = arena("submit", path, "--violations", "refuse", *ONE)
    assert code == 1
    assert "documents that do not count: unavailable 2, duplicate 1" in err
    assert edition(arena).slots == slots
    entered = arena.json("submit", path, *ONE)
    assert entered["violations"] == {"unavailable": 2, "duplicate": 1}
    run = open_edition(root(arena), "2026-01-06").run("agent@2")
    assert [document for document, _ in run[topic]] == ranking


def test_a_missing_topic_is_empty_and_an_unknown_one_an_error(arena: Arena, run_file: Path) -> None:
    found = rankings(run_file)
    first = next(iter(found))
    missing = write_jsonl(arena.folder / "missing.jsonl", {t: r for t, r in found.items() if t != first})
    entered = arena.json("submit", missing, *WHOSE)
    assert entered["outcomes"] == {"scored": len(found) - 1, "empty": 1}
    unknown = write_jsonl(arena.folder / "unknown.jsonl", found | {12345: [1]})
    code, _, err = arena("submit", unknown, "--task", "discovery", "--system", "b", "--system-version", "1", *ONE)
    assert code == 1
    assert "'12345'" in err


def test_a_run_is_built_again_from_what_was_handed_in(arena: Arena, run_file: Path) -> None:
    before = arena.json("submit", run_file, *WHOSE)["datasets"]["run/agent@1"]
    run_file.unlink()
    (part,) = (root(arena) / "submitted_run" / before["key"]).glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    code, _, err = arena("rerun", "--damaged", "--edition", "2026-01-06", *ONE)
    assert code == 0, err
    assert edition(arena).slots["run/agent@1"].digest == before["digest"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "discovery", "--system", "agent"), "whose run is it"),
        (("--task", "organization", "--system", "agent", "--system-version", "1"), "has no mindmaps"),
        (("--task", "discovery", "--system", "../a", "--system-version", "1"), "--name"),
    ],
)
def test_what_is_missing_is_said(arena: Arena, run_file: Path, options: tuple[str, ...], said: str) -> None:
    code, _, err = arena("submit", run_file, *options, *ONE)
    assert code == 2
    assert said in err
    assert not (root(arena) / ".submitted").exists()
