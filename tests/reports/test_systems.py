"""What sets a system apart is marked beside its name: every mark, and only where it belongs."""

from typing import Any

import pytest

from schemas.identifiers import StageName
from schemas.manifest import Ref
from schemas.settings import EncoderSettings, Settings
from tasks.ranking.views import FALLBACK_SHARE
from tasks.reports.systems import FACETS, describe_system
from tasks.store.dataset import Dataset
from tasks.store.stage import Stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace

TAG = "title.dense.abstract"
SYSTEM = {"name": "agent", "version": "1", "kind": "closed"}
REMOVED = {"unavailable": 2, "duplicate": 1, "outside": 4}


class Made(Settings):
    """The settings that marks look at."""

    model: dict[str, str] | None = None
    encoder: EncoderSettings | None = None
    system: dict[str, str] | None = None
    limit_topics: int | None = None
    sample_topics: int | None = None


def make(store: Store, name: str, settings: Made, inputs: dict[str, Ref], notes: dict[str, float]) -> Ref:
    def write(work: Workspace[Made]) -> None:
        for shard in work.pending(["all"]):
            with shard:
                shard.file("part").write_text(name)
                shard.counts.notes = notes

    return store.build(Request(Stage(StageName(name), 1, Made, write), settings, inputs)).ref


def made(store: Store, encoder: str | None, notes: dict[str, float], settings: dict[str, Any]) -> Dataset:
    inputs: dict[str, Ref] = {}
    if encoder:
        rule = Made(encoder=EncoderSettings(model=encoder))
        inputs = {"embeddings": make(store, "embeddings", rule, {}, {})}
    return store.open(make(store, "run", Made.model_validate(settings), inputs, notes))


@pytest.mark.parametrize(
    ("settings", "encoder", "notes", "words"),
    [
        ({}, None, {}, []),
        ({"model": {"provider": "stand-in", "model": "stand-in"}}, None, {}, ["stand-in"]),
        ({"model": {"provider": "openai", "model": "gpt"}}, None, {}, []),
        ({}, "models/tiny", {}, ["encoder tiny"]),
        ({}, EncoderSettings().model, {}, []),
        ({}, None, REMOVED, []),
        ({"system": SYSTEM}, None, REMOVED, ["submitted, closed", "3 violations", "4 from outside"]),
        ({"system": SYSTEM | {"kind": "desk_only"}}, None, {}, ["submitted, desk only"]),
        ({"system": SYSTEM | {"kind": "own_tools"}}, None, {"unavailable": 0}, ["submitted, own tools"]),
        ({"limit_topics": 5}, None, {}, ["first ones only"]),
        ({"sample_topics": 5}, None, {}, ["sample"]),
    ],
)
def test_what_sets_a_run_apart_is_marked(
    settings: dict[str, Any], encoder: str | None, notes: dict[str, float], words: list[str], store: Store
) -> None:
    system = describe_system(TAG, made(store, encoder, notes, settings))
    assert [mark.word for mark in system.label.marks] == words
    assert all(mark.meaning.endswith(".") for mark in system.label.marks)
    assert system.facets[-1] == ("submitted" if "system" in settings else "ours")


def test_trees_are_marked_like_the_run_that_they_arrange(store: Store) -> None:
    run = made(store, "models/tiny", {}, {"model": {"provider": "stand-in", "model": "stand-in"}})
    trees = store.open(make(store, "trees", Made(), {"run": run.ref}, {}))
    system = describe_system("themes.storm.hybrid.abstract+tiny+stand-in", trees)
    assert system.label.text == "Themes · STORM · hybrid · abstract"
    assert [mark.word for mark in system.label.marks] == ["stand-in", "encoder tiny"]
    assert dict(zip(FACETS, system.facets, strict=True))["Model"] == "stand-in"


def test_fallbacks_are_marked_beyond_a_share_of_the_topics(store: Store) -> None:
    run, few = made(store, None, {}, {}), int(100 * FALLBACK_SHARE)
    marked = [describe_system(TAG, run, fallbacks=number, of=100).label.marks for number in (0, few, few + 1)]
    assert [[mark.word for mark in marks] for marks in marked] == [[], [], [f"{few + 1} fallbacks"]]
