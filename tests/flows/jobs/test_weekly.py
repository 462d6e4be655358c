"""Weekly runs against a server that behaves like Semantic Scholar's: new, absent, refused and interrupted releases."""

import gzip
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prefect.client.orchestration import get_client

from flows.jobs.resync import resync
from flows.jobs.weekly import WeekSettings, weekly
from flows.pipeline.machine import Machine
from flows.pipeline.upstream import Upstream
from schemas.errors import StageFailed
from schemas.fetching import FetchSettings
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, RunSettings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import Arena
from tests.index.conftest import save_tiny_model
from tests.release.s2_server import KEY, S2Server

FIRST, SECOND, THIRD = "2026-01-06", "2026-01-13", "2026-01-27"
CORPUS = CorpusSettings(corpus="abstract", buckets=4)
DATASETS = ("papers", "abstracts", "citations", "s2orc_v2")

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S2Server]:
    with S2Server() as server:
        write_release(tmp_path / "made", SyntheticSettings(release=FIRST, papers=240, broken=False))
        server.content[FIRST] = {name: contents(tmp_path / "made" / FIRST / name) for name in DATASETS}
        yield server


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def pack(records: list[dict[str, Any]]) -> bytes:
    return gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode(), mtime=0)


def papers_of(server: S2Server) -> list[dict[str, Any]]:
    files = server.content[FIRST]["papers"].values()
    return [json.loads(line) for data in files for line in gzip.decompress(data).splitlines()]


def offer(server: S2Server, start: str, end: str, updates: list[dict[str, Any]], deletes: list[int]) -> None:
    """Adds a later release that is only fetched as a diff."""
    server.content[end] = {name: {} for name in DATASETS}
    nothing: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
    gone = {"part": pack([{"corpusid": corpus_id} for corpus_id in deletes])} if deletes else {}
    server.diffs[start, end] = dict.fromkeys(DATASETS, nothing) | {"papers": ({"part": pack(updates)}, gone)}


def machine_of(folder: Path) -> Machine:
    return Machine(root=folder / "store", releases=folder / "mirror", workers=1)


def upstream_of(server: S2Server, folder: Path) -> Upstream:
    return Upstream(url=server.url, state=folder / "state", interval_s=0)


@pytest.fixture
def week(tmp_path: Path, server: S2Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the flow in a folder (None: that of the test) and returns its final state."""
    monkeypatch.setenv("S2_API_KEY", KEY)
    settings = WeekSettings(
        corpus=CORPUS,
        index=IndexSettings(encoder=EncoderSettings(model=str(save_tiny_model(tmp_path / "tiny", seed=0)))),
        runs=RunSettings(baselines=("title",), retrievers=("bm25", "dense")),
        fetch=FetchSettings(spare_gib=0),
        site=str(tmp_path / "site"),
    )

    def run(folder: Path = tmp_path) -> Any:
        return weekly(settings, upstream_of(server, folder), machine=machine_of(folder), return_state=True)

    return run


def test_weeks_follow_each_other_and_nothing_happens_twice(week: Any, server: S2Server, tmp_path: Path) -> None:
    assert week().is_completed()
    editions = Editions(Store(tmp_path / "store"))
    assert editions.load(FIRST).published
    calls = len(server.calls)
    assert week().name == "NothingNew"
    assert len(server.calls) == calls + 1

    records = papers_of(server)
    survey = next(record for record in records if "survey" in record["title"].lower())
    changed = records[5] | {"title": "Another title altogether"}
    offer(server, FIRST, SECOND, [changed], [survey["corpusid"]])
    offer(server, SECOND, THIRD, [changed | {"title": "Once more"}], [])
    assert FIRST in (site := tmp_path / "site" / "index.html").read_text()
    assert week().is_completed()
    assert editions.names() == [FIRST, THIRD]
    assert f'href="{THIRD}/index.html"' in site.read_text(), "the site shows the new week"
    store = Store(tmp_path / "store")
    papers = pl.read_parquet(store.open(editions.load(THIRD).slots["papers"]).files())
    assert papers.filter(corpus_id=records[5]["corpusid"])["title"].to_list() == ["Once more"]
    assert survey["corpusid"] not in papers["corpus_id"].to_list()
    vectors = store.open(editions.load(THIRD).slots["embeddings/abstract"]).manifest.counts.notes
    assert vectors["encoded"] <= 1, vectors
    with get_client(sync_client=True) as client:
        assert f"changes-{THIRD}" in {artifact.key for artifact in client.read_artifacts()}
    assert week().name == "NothingNew"

    compare = partial(resync, settings=CORPUS, fetch=FetchSettings(spare_gib=0), return_state=True)
    where = {"upstream": upstream_of(server, tmp_path), "machine": machine_of(tmp_path)}
    assert compare(FIRST, **where).name == "InStep"
    server.content[THIRD] = server.content[FIRST]
    state = compare(**where)  # without a name: the newest published
    assert state.name == "Diverged" and f"edition {THIRD} differs" in state.message
    assert "paper_records" in state.message and "citation_records" not in state.message


@pytest.mark.e2e
def test_a_refused_week_leaves_the_last_edition_and_the_next_one_is_built(
    week: Any, server: S2Server, tmp_path: Path
) -> None:
    assert week().is_completed()
    records = papers_of(server)
    offer(server, FIRST, SECOND, [], [record["corpusid"] for record in records[: len(records) // 2]])
    state = week()
    assert state.name == "Refused"
    assert "papers rows: " in state.message
    assert "deletes; expected at most" in state.message
    assert Editions(Store(tmp_path / "store")).names() == [FIRST]
    assert week().name == "NothingNew"


@pytest.mark.e2e
def test_what_diffs_leave_is_judged_too_and_a_person_can_accept_it(
    week: Any, server: S2Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert week().is_completed()
    many = [record | {"corpusid": 10**9 + place} for place, record in enumerate(papers_of(server)[:100])]
    offer(server, FIRST, SECOND, many, [])
    state = week()
    assert state.name == "Refused"
    assert "papers rows: " in state.message and "after the diffs; expected" in state.message
    calls = len(server.calls)
    assert week().name == "NothingNew"
    assert len(server.calls) == calls + 1

    arena = Arena(tmp_path, capsys)
    check = ("release", "check", SECOND, "--releases", tmp_path / "mirror", "--root", tmp_path / "store")
    code, out, err = arena(*check)
    assert code == 1 and f"release {SECOND} is refused" in err and "after the diffs" in out
    assert arena(*check, "--accept", "They were announced.")[0] == 0
    assert week().is_completed()
    assert Editions(Store(tmp_path / "store")).load(SECOND).published
    assert week().name == "NothingNew"


@pytest.mark.e2e
def test_a_week_interrupted_again_and_again_ends_at_the_same_edition(
    week: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, left = Store._publish, 0

    def die_after_some(*arguments: Any) -> Any:
        nonlocal left
        if not left:
            raise ZeroDivisionError("injected")
        left -= 1
        return publish(*arguments)

    store = Store(tmp_path / "store")
    interrupted = 0
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_publish", die_after_some)
        while True:
            left = 4
            state = week()
            if state.is_completed():
                break
            interrupted += 1
            with pytest.raises(StageFailed, match="injected"):
                state.result()
            assert not Editions(store).load(FIRST).published
    assert interrupted >= 3
    assert week(tmp_path / "undisturbed").is_completed()
    editions = [Editions(Store(folder / "store")).load(FIRST) for folder in (tmp_path, tmp_path / "undisturbed")]
    assert all(edition.published for edition in editions)
    assert editions[0].slots == editions[1].slots
