"""The run stage over a real BM25 index: tables, failures of one topic, resuming, worker processes."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from schemas.errors import StageFailed, TransientError
from schemas.manifest import Ref
from schemas.settings import EncoderSettings, Resources
from schemas.topic import Topic
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.index.ranked import Ranked
from tasks.ranking import baseline as systems
from tasks.ranking.baseline import Baseline, Kit, Ranking
from tasks.ranking.runs import SystemSettings, run
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.retriever import Allowed
from tasks.store.dataset import Dataset
from tasks.store.store import Request, Store
from tests.index.conftest import save_tiny_model
from tests.published import publish_documents, publish_surveys, publish_topics, topic_row

N_TOPICS = 35
BIRDS, SURVEY, LATE, LONG = 101, 102, 103, 104
TEXTS = {
    BIRDS: ("Migration of birds", "Birds fly south."),
    SURVEY: ("Birds: a survey", "All about birds."),
    LATE: ("Birds of tomorrow", "Birds."),
    LONG: ("Fish", "Fish swim; many a bird eats fish, and few birds are eaten by fish of any kind."),
}
IN_THIS_PROCESS = Resources(workers=1)


@pytest.fixture
def inputs(store: Store) -> dict[str, Ref]:
    """Topics 1 to 35, the last of which nobody can answer."""
    documents = publish_documents(store, TEXTS | {1: ("Birds topic", "birds birds birds")}, late={LATE})
    index = store.build(Request(bm25, Bm25Settings(field="title_abstract"), {"documents": documents}), IN_THIS_PROCESS)
    topics = [topic_row(t, "Birds" if t < N_TOPICS else "Qwertz") for t in range(1, N_TOPICS + 1)]
    return {
        "topics": publish_topics(store, [*topics, topic_row(99, outcome="no_date")], {}),
        "documents": documents,
        "surveys": publish_surveys(store, [SURVEY]),
        "bm25": index.ref,
    }


def chosen(**changes: object) -> SystemSettings:
    defaults = {
        "baseline": "title",
        "baseline_version": 1,
        "retriever": "bm25",
        "field": "title_abstract",
        "tag": "title.bm25.title_abstract",
    }
    return SystemSettings.model_validate(defaults | changes)


def build(store: Store, inputs: dict[str, Ref], resources: Resources = IN_THIS_PROCESS, **changes: object) -> Dataset:
    return store.open(store.build(Request(run, chosen(**changes), inputs), resources).ref)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[systems.System], None]:
    """Makes a function the baseline `probe` for one test."""

    def install(function: systems.System) -> None:
        monkeypatch.setitem(systems._registry._things, "probe", Baseline("probe", "For a test.", function, 1))

    return install


def test_tables_hold_what_was_found_and_how(store: Store, inputs: dict[str, Ref]) -> None:
    dataset = build(store, inputs)
    ranked = pl.read_parquet(dataset.files()).filter(topic_id=2)
    assert ranked["corpus_id"].to_list() == [1, BIRDS, LONG]
    assert ranked["rank"].to_list() == [1, 2, 3] and ranked["score"].is_sorted(descending=True)
    assert set(ranked["tag"]) == {"title.bm25.title_abstract"}
    itself = pl.read_parquet(dataset.files("searches")).row(0, named=True)
    assert (itself["topic_id"], itself["query"], itself["retriever"], itself["k"]) == (1, "birds", "bm25", 100)
    assert (itself["returned"], itself["dropped_self"], itself["dropped_survey"], itself["dropped_date"]) == (
        2,
        1,
        1,
        1,
    )
    outcomes = dict(pl.read_parquet(dataset.files("outcomes")).select("topic_id", "outcome").iter_rows())
    assert outcomes == dict.fromkeys(range(1, N_TOPICS), "scored") | {N_TOPICS: "empty"}
    counts = dataset.manifest.counts
    assert (counts.read, counts.kept, counts.dropped, counts.failed) == (N_TOPICS, N_TOPICS - 1, {"empty": 1}, 0)


def test_worker_processes_write_the_same_bytes(store: Store, inputs: dict[str, Ref]) -> None:
    alone = build(store, inputs)
    together = Store(store.root.parent / "other")
    for name in ("topics", "documents", "surveys", "bm25"):
        (together.root / name).symlink_to(store.root / name)
    assert build(together, inputs, Resources(workers=2)).manifest.digest == alone.manifest.digest


def test_a_failure_stays_with_its_topic(
    store: Store, inputs: dict[str, Ref], register: Callable[[systems.System], None]
) -> None:
    def fails_on_three(topic: Topic, kit: Kit) -> Ranking:
        found = kit.desk.search(topic.title, 1)
        if topic.topic_id == 3:
            raise RuntimeError("lost the thread")
        return Ranking(found)

    register(fails_on_three)
    dataset = build(store, inputs, baseline="probe", limit_topics=5)
    outcomes = pl.read_parquet(dataset.files("outcomes"))
    assert outcomes["outcome"].to_list() == ["scored", "scored", "failed", "scored", "scored"]
    assert outcomes["note"].to_list() == [None, None, "RuntimeError: lost the thread", None, None]
    assert pl.read_parquet(dataset.files())["topic_id"].unique().sort().to_list() == [1, 2, 4, 5]
    assert pl.read_parquet(dataset.files("searches"))["topic_id"].to_list() == [1, 2, 3, 4, 5]
    assert dataset.manifest.counts.failed == 1


def test_a_stopped_run_goes_on_at_the_unfinished_shard(
    store: Store, inputs: dict[str, Ref], register: Callable[[systems.System], None]
) -> None:
    asked: list[int] = []

    def stops_once(topic: Topic, kit: Kit) -> Ranking:
        asked.append(topic.topic_id)
        if len(asked) == 20:
            raise TransientError("the service is away")
        return Ranking(kit.desk.search(topic.title, kit.cutoff))

    register(stops_once)
    with pytest.raises(TransientError):
        build(store, inputs, baseline="probe")
    dataset = build(store, inputs, baseline="probe")
    assert asked == [*range(1, 21), *range(17, N_TOPICS + 1)]
    assert dataset.manifest.shards_resumed == 1
    undisturbed = build(store, inputs, baseline="title")
    assert dataset.manifest.counts == undisturbed.manifest.counts


def test_a_system_gets_cutoff_and_seed(
    store: Store, inputs: dict[str, Ref], register: Callable[[systems.System], None]
) -> None:
    seen: set[tuple[int, int]] = set()

    def looks(topic: Topic, kit: Kit) -> Ranking:
        seen.add((kit.cutoff, kit.seed))
        return Ranking(kit.desk.search(topic.title, 100))

    register(looks)
    dataset = build(store, inputs, baseline="probe", cutoff=1, seed=5)
    assert seen == {(1, 5)}
    assert pl.read_parquet(dataset.files())["rank"].unique().to_list() == [1]


def test_no_topics_give_an_empty_run(store: Store, inputs: dict[str, Ref]) -> None:
    dataset = build(store, inputs | {"topics": publish_topics(store, [], {})})
    assert [len(pl.read_parquet(dataset.files(name))) for name in ("part", "searches", "outcomes")] == [0, 0, 0]


def test_another_version_and_a_lacking_index_are_refused(store: Store, inputs: dict[str, Ref]) -> None:
    with pytest.raises(StageFailed, match="has version 1, the settings say 2"):
        build(store, inputs, baseline_version=2)
    with pytest.raises(StageFailed, match="lacks embeddings"):
        build(store, inputs, retriever="hybrid")


@pytest.mark.parametrize("tag", ["two words", "../up", "line\nbreak", ""])
def test_a_tag_is_one_word(tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        chosen(tag=tag)


@pytest.mark.parametrize("baseline", ["title", "feedback"])
def test_topics_answered_at_once_share_searches_and_give_the_run_of_topics_one_by_one(
    store: Store, inputs: dict[str, Ref], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: str
) -> None:
    encoder = EncoderSettings(model=str(save_tiny_model(tmp_path / "model", seed=0)))
    settings = EmbeddingSettings(field="title_abstract", encoder=encoder)
    made = store.build(Request(embeddings, settings, {"documents": inputs["documents"]}), IN_THIS_PROCESS)
    given = {**inputs, "embeddings": made.ref}
    together: list[int] = []
    waits, judged = ["the first search"], list[int]()
    many, of_topic = DenseIndex.search_many, DenseRetriever._judge
    monkeypatch.setattr(DenseRetriever, "_judge", lambda self, allowed: judge(self, allowed))

    def watch(self: DenseIndex, vectors: np.ndarray, n: int, kept: Sequence[np.ndarray]) -> list[Ranked]:
        together.append(len(vectors))
        deadline = time.monotonic() + 30
        while waits and len(judged) < 4 and time.monotonic() < deadline:  # meanwhile other topics ask
            time.sleep(0.01)
        waits.clear()
        return many(self, vectors, n, kept)

    def judge(self: DenseRetriever, allowed: Allowed) -> object:
        judged.append(allowed.topic_id)
        return of_topic(self, allowed)

    monkeypatch.setattr(DenseIndex, "search_many", watch)
    digest = build(store, given, baseline=baseline, retriever="dense", tag="dense").manifest.digest
    searches = N_TOPICS * (2 if baseline == "feedback" else 1)
    assert sum(together) == searches
    assert max(together) > 1
    monkeypatch.setattr("tasks.ranking.runs.AT_ONCE", 1)
    shutil.rmtree(store.root / "run")
    together.clear()
    assert build(store, given, baseline=baseline, retriever="dense", tag="dense").manifest.digest == digest
    assert together == [1] * searches
