"""Editions grow, drop what became stale, freeze when published, and keep what they reach from collection."""

from datetime import timedelta
from pathlib import Path

import pytest

from schemas.errors import StoreError, UsageError
from schemas.identifiers import StageName
from schemas.manifest import Ref
from tasks.store.collect import collect
from tasks.store.editions import Editions
from tasks.store.recipes import PlannedStage, Recipes
from tasks.store.stage import stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.store.conftest import Squares, request_for, squares, write_square


def _derived(work: Workspace[Squares]) -> None:
    for shard in work.pending(["00000"]):
        with shard:
            write_square(shard, work.dataset("topics").table().num_rows)


scores = stage("scores", version=1, settings=Squares)(_derived)


def derive(store: Store, source: Ref) -> Ref:
    return store.build(Request(scores, Squares(), {"topics": source})).ref


def test_replacing_a_dataset_takes_out_what_was_made_from_it(store: Store) -> None:
    editions = Editions(store)
    three, four = store.build(request_for()).ref, store.build(request_for(shards=4)).ref
    editions.record("week", "r1", {"topics": three, "scores/a": derive(store, three)})
    edition = editions.record("week", "r1", {"topics": four})
    assert edition.slots == {"topics": four}
    assert editions.load("week") == edition


def test_what_was_made_from_equal_content_stays(store: Store) -> None:
    editions = Editions(store)
    plain, other = store.build(request_for()).ref, store.build(request_for(flavour="other")).ref
    assert plain.digest == other.digest and plain.key != other.key
    cached = derive(store, plain)
    assert derive(store, other) == cached
    editions.record("week", "r1", {"topics": other})
    editions.record("week", "r1", {"scores/a": cached})
    assert set(editions.record("week", "r1", {"scores/b": cached}).slots) == {"topics", "scores/a", "scores/b"}


def test_published_editions_take_new_runs_only(store: Store) -> None:
    editions = Editions(store)
    three, four = store.build(request_for()).ref, store.build(request_for(shards=4)).ref
    editions.record("week", "r1", {"topics": three})
    assert editions.publish("week").published is not None
    with pytest.raises(UsageError, match="topics cannot change"):
        editions.record("week", "r1", {"topics": four})
    added = editions.record("week", "r1", {"topics": three, "scores/new": derive(store, three)})
    assert set(added.slots) == {"topics", "scores/new"}


def test_publishing_checks_every_byte(store: Store) -> None:
    editions = Editions(store)
    ref = store.build(request_for()).ref
    editions.record("week", "r1", {"topics": ref})
    path = store.open(ref).files()[0]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StoreError, match=r"cannot be published: .*part-00000.parquet has sha256"):
        editions.publish("week")
    path.unlink()
    assert len(editions.problems("week")) == 1


def test_wrong_names_are_refused(store: Store) -> None:
    editions = Editions(store)
    editions.record("week", "r1", {})
    with pytest.raises(UsageError, match="there are: week"):
        editions.load("weak")
    with pytest.raises(UsageError, match="letters, digits"):
        editions.record("../week", "r1", {})
    with pytest.raises(UsageError, match="is of release r1"):
        editions.record("week", "r2", {})


def test_links_to_a_dataset_are_collected_after_it(store: Store) -> None:
    dataset = store.open(store.build(request_for()).ref)
    (dataset.folder / "index").mkdir()
    links = dataset.linked("index")
    assert dataset.linked("index") == links
    assert links not in [garbage.path for garbage in collect(store, older_than=timedelta(0))]
    collect(store, dry_run=False, older_than=timedelta(0))  # nothing reaches the dataset
    collect(store, dry_run=False, older_than=timedelta(0))
    assert not links.exists()


def test_collection_spares_what_an_edition_reaches(store: Store, tmp_path: Path) -> None:
    editions = Editions(store)
    source, stray = store.build(request_for()).ref, store.build(request_for(shards=4)).ref
    derived = derive(store, source)
    editions.record("week", "r1", {"scores/a": derived})
    assert collect(store) == []  # too young
    found = collect(store, older_than=timedelta(0))
    assert [garbage.path for garbage in found] == [store.folder(stray)]
    assert store.folder(stray).exists()
    assert collect(store, dry_run=False, older_than=timedelta(0)) == found
    assert not store.folder(stray).exists()
    assert not list((store.root / ".trash").iterdir())
    assert store.open(derived).table().num_rows == store.open(source).table().num_rows - 2


def test_slots_are_planned_behind_those_they_are_made_from(store: Store) -> None:
    sources = {"airqa/bm25": "airqa/chunks", "bm25/abstract": "documents", "airqa/chunks": None, "documents": None}
    stages = ["bm25", "bm25", "paperqa_chunks", "documents"]
    planned = {
        slot: PlannedStage(stage=StageName(name), parameters={}, inputs={"documents": source} if source else {})
        for (slot, source), name in zip(sources.items(), stages, strict=True)
    }
    Recipes(store).plan("week", "r1", planned)

    loaded = Recipes(store).load(Editions(store).record("week", "r1", {}))
    assert list(loaded) == ["documents", "airqa/chunks", "airqa/bm25", "bm25/abstract"]


def test_datasets_of_a_stage_that_is_not_installed_any_more_are_collected(store: Store) -> None:
    gone = store.build(Request(stage("gone", version=1, settings=Squares)(squares.function), Squares(), {})).ref

    found = collect(store, dry_run=False, older_than=timedelta(0))
    assert [garbage.path for garbage in found] == [store.folder(gone)]
    assert not store.folder(gone).exists()


@pytest.mark.parametrize("folder", ["editions", "recipes"])
def test_a_damaged_edition_or_recipe_is_restored_from_its_copy(store: Store, folder: str) -> None:
    editions, recipes = Editions(store), Recipes(store)
    edition = editions.record("week", "r1", {"topics": store.build(request_for()).ref})
    recipes.plan("week", "r1", {"topics": PlannedStage(stage=StageName("topics"), parameters={}, inputs={})})
    path = store.root / folder / "week.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"topics", b"topicz", 1))

    assert editions.load("week") == edition
    assert list(recipes.load(edition)) == ["topics"]
    assert path.read_bytes() == content
    path.write_bytes(b"")
    path.with_suffix(".copy").write_bytes(b"")
    with pytest.raises(StoreError, match=rf"{folder}/week\.copy: is damaged \(the whole: .*; (restore|delete) it"):
        recipes.load(editions.load("week"))
