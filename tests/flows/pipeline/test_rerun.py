"""Rerunning a stage: what executes, what is reused, and the status of an edition's stages."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from flows.commands.status import rerun as rerun_command
from flows.pipeline.fingerprints import FILE
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.rerun import choose, rerun
from flows.pipeline.stages import find_stage
from flows.pipeline.status import edition_status
from flows.pipeline.walk import Pipeline
from schemas.errors import ArenaError, StageFailed, UsageError
from schemas.settings import CorpusSettings, Resources
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import direct


def again(pipeline: Pipeline, chain, stage: str, **options):
    """Reruns a stage of the chain; returns the names of the executed stages."""
    chain.executed.clear()
    by_name = {step.stage.name: step.stage for step in chain.steps(0)}
    rerun(pipeline, choose(pipeline, stage, **options), by_name.__getitem__)
    return chain.executed


def test_force_executes_one_stage_and_equal_bytes_execute_nothing_else(pipeline, chain):
    built = pipeline.walk(chain.steps(42), release="r")

    assert again(pipeline, chain, "surveys") == []
    assert again(pipeline, chain, "surveys", mode="force") == ["surveys"]
    assert Editions(pipeline.store).load("e").slots == built


def test_what_is_made_from_changed_bytes_follows(pipeline, chain, monkeypatch):
    pipeline.walk(chain.steps(42), release="r")
    before = Editions(pipeline.store).load("e").slots
    monkeypatch.setattr(chain, "_write", lambda work, name, number, write=chain._write: write(work, name, number + 30))

    assert again(pipeline, chain, "surveys", mode="force") == ["surveys", "references"]
    after = Editions(pipeline.store).load("e").slots
    assert after["papers"] == before["papers"]
    assert after["references"].digest != before["references"].digest


def test_a_stage_that_failed_is_run_from_the_recipe_and_the_rest_follows(pipeline, chain, store):
    chain.trouble.append(ValueError("no such column"))
    with pytest.raises(StageFailed):
        pipeline.walk(chain.steps(42), release="r")

    assert set(Editions(store).load("e").slots) == {"papers"}
    assert again(pipeline, chain, "surveys") == ["surveys", "references"]
    undisturbed = Pipeline(store, "other", pipeline.execute).walk(chain.steps(42), release="r")
    assert Editions(store).load("e").slots == undisturbed


def test_a_deleted_dataset_is_built_again_to_the_same_bytes(pipeline, chain, store):
    built = pipeline.walk(chain.steps(42), release="r")
    Editions(store).publish("e")
    shutil.rmtree(store.folder(built["surveys"]))

    assert again(pipeline, chain, "surveys") == ["surveys"]
    assert Editions(store).load("e").slots == built


def test_damage_is_repaired_with_what_was_made_of_it(pipeline, chain, store):
    """The second stage read a wrong number before anybody noticed; the third has the right key and the wrong bytes."""
    right = pipeline.walk(chain.steps(42), release="r")
    Editions(store).publish("e")
    number = store.folder(right["papers"]) / "number"
    number.write_text("52")

    assert again(pipeline, chain, None, mode="damaged") == ["papers", "surveys"]
    assert number.read_text() == "42"
    assert Editions(store).load("e").slots == right
    assert again(pipeline, chain, None, mode="damaged") == []
    assert again(pipeline, chain, "references", mode="damaged") == []


def test_a_published_edition_is_not_changed(pipeline, chain, store):
    pipeline.walk(chain.steps(42), release="r")
    Editions(store).publish("e")

    with pytest.raises(UsageError, match="build a new edition"):
        again(pipeline, chain, "papers", mode="force")
    assert chain.executed == []


def test_a_stage_that_the_edition_lacks_is_named_with_those_it_has(pipeline, chain):
    pipeline.walk(chain.steps(42), release="r")

    with pytest.raises(UsageError, match="'scores'; it has: papers, references, surveys"):
        again(pipeline, chain, "scores")


def test_an_edition_of_another_release_keeps_its_recipe(pipeline, chain):
    pipeline.walk(chain.steps(42), release="r")

    with pytest.raises(UsageError, match="of release r, not s"):
        pipeline.walk(chain.steps(43), release="s")
    assert again(pipeline, chain, "papers", mode="force") == ["papers"]


def test_a_mended_release_file_is_read_anew_and_the_edition_is_that_of_an_undisturbed_build(built, store, tmp_path):
    releases = shutil.copytree(built / "releases", tmp_path / "releases")
    machine = Machine(root=store.root, releases=releases, workers=1)
    broken = min((releases / "2026-01-06" / "citations").iterdir())
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    pipeline = Pipeline(store, "2026-01-06", direct(store))
    with pytest.raises(ArenaError, match=broken.name):
        pipeline.build_corpus(CorpusSettings(buckets=2), open_files(machine, None))
    assert states(store)["citation_records"] == ("unfinished", "yes")
    assert states(store)["references"][0] == "waiting"

    broken.write_bytes(content)
    rerun(pipeline, choose(pipeline, "citation_records"))

    undisturbed = Editions(Store(built / "store")).load("2026-01-06").slots
    assert Editions(store).load("2026-01-06").slots == {s: r for s, r in undisturbed.items() if r.stage != "bm25"}
    assert set(states(store).values()) == {("built", "no")}


@pytest.fixture
def copied(built, tmp_path) -> Store:
    shutil.copytree(built / "store", tmp_path / "store")
    return Store(tmp_path / "store")


def states(store: Store) -> dict[str, tuple[str, str]]:
    return {slot.slot: (slot.state, slot.runs) for slot in edition_status(store, "2026-01-06")}


def test_status_distinguishes_missing_damaged_and_outdated_from_built(copied, monkeypatch):
    slots = Editions(copied).load("2026-01-06").slots
    assert Counter(states(copied).values()) == {("built", "no"): len(slots)}

    flipped = next(copied.folder(slots["surveys"]).glob("part-*"))
    content = flipped.read_bytes()
    flipped.write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
    part = next(copied.folder(slots["topics"]).glob("part-*"))
    part.write_bytes(part.read_bytes()[:-1])
    shutil.rmtree(copied.folder(slots["bm25/abstract"]))
    staging = copied.root / ".staging" / "bm25" / slots["bm25/abstract"].key / ".shards"
    staging.mkdir(parents=True)
    (staging / "0.json").write_text("{}")
    newer = replace(find_stage("references"), version=99)
    monkeypatch.setattr("tasks.corpus.references.references", newer)
    (copied.root / FILE).unlink()  # as another time of the stage's file would void it
    found = states(copied)

    assert found["topics"] == found["surveys"] == ("damaged", "yes")
    assert found["bm25/abstract"] == ("unfinished", "yes")
    assert found["references"] == ("outdated", "yes")
    assert found["statistics"] == ("built", "if its inputs change")
    assert found["papers"] == ("built", "no")


def test_status_of_a_published_edition_proposes_repairs_and_nothing_else(copied, monkeypatch):
    Editions(copied).publish("2026-01-06")
    newer = replace(find_stage("references"), version=99)
    monkeypatch.setattr("tasks.corpus.references.references", newer)
    shutil.rmtree(copied.folder(Editions(copied).load("2026-01-06").slots["bm25/abstract"]))
    (copied.root / FILE).unlink(missing_ok=True)
    found = states(copied)

    assert found["references"] == ("outdated", "no")
    assert found["bm25/abstract"] == ("missing", "yes")
    assert {slot for slot, (_, runs) in found.items() if runs != "no"} == {"bm25/abstract"}


def test_status_of_an_edition_without_recipe_is_read_from_its_manifests(copied):
    shutil.rmtree(copied.root / "recipes")

    assert set(states(copied)) == set(Editions(copied).load("2026-01-06").slots)
    assert set(states(copied).values()) == {("built", "no")}


def test_the_command_repairs_what_status_shows(copied, capsys):
    topics = Editions(copied).load("2026-01-06").slots["topics"]
    shutil.rmtree(copied.folder(topics))
    rerun_command(
        "topics", edition="2026-01-06", machine=Machine(root=copied.root, **Resources(workers=1).model_dump())
    )

    assert set(states(copied).values()) == {("built", "no")}
    assert Editions(copied).load("2026-01-06").slots["topics"] == topics
