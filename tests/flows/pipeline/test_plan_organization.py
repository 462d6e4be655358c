"""Plans of organization: the trees, their inputs and their names."""

import pytest

from flows.pipeline.plans.organization import OrganizationPlan
from flows.pipeline.plans.steps import Engine
from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.settings import EncoderSettings, OrganizationSettings
from tasks.metrics.headings import FlairEntityExtractor

MINILM = EncoderSettings(model="all-MiniLM-L6-v2")
MODEL = ModelName(provider="host", model="model-1")
STORM = "storm.oracle.bm25.abstract+model-1"


def no_model() -> ModelName:
    raise UsageError("no language model is set up")


def whole(settings: OrganizationSettings, encoder: EncoderSettings | None = MINILM, ask=lambda: MODEL):
    return OrganizationPlan(settings, encoder, lambda: Engine("bm25", "abstract"), ask).steps()


def test_every_tree_is_made_of_what_it_needs_and_scored_after_it() -> None:
    runs = ("storm.dense.abstract+model-1", "title.bm25.abstract")
    builders = ("clustering", "single", "few_shot", "storm")
    steps = {step.slot: step for step in whole(OrganizationSettings(builders=builders, runs=runs))}
    trees = [slot.removeprefix("trees/") for slot in steps if slot.startswith("trees/")]
    assert trees == [
        "clustering.oracle.abstract+minilm",
        "clustering.storm.dense.abstract+model-1+minilm",
        "clustering.title.bm25.abstract+minilm",
        "single",
        "few_shot+model-1",
        STORM,
        "storm.dense.abstract+model-1",
    ]
    made: set[str] = {"topics", "documents", "surveys", "mindmaps", "bm25/abstract", "embeddings/abstract"}
    made |= {f"run/{tag}" for tag in runs}
    for step in steps.values():
        assert set(step.inputs.values()) <= made, step.slot
        made.add(step.slot)
    assert steps[f"trees/{STORM}"].inputs["run"] == f"outlines/{STORM}"
    assert steps[f"outlines/{STORM}"].settings.references == "oracle"
    assert {slot.removeprefix("tree_scores/") for slot in steps if slot.startswith("tree_scores/")} == set(trees)


def test_other_readings_of_the_distance_stand_in_the_scores_name() -> None:
    settings = OrganizationSettings(builders=("single",), distance=("ge", "free_ops"), clip=True)
    trees, scores = whole(settings)
    assert (trees.slot, scores.slot) == ("trees/single", "tree_scores/single+free-ops+ge+clip")
    assert scores.settings.distance == ("ge", "free_ops") and scores.settings.clip
    *_, strict = whole(OrganizationSettings(builders=("single",), distance=("ge",), threshold=0.9))
    assert strict.slot == "tree_scores/single+above0.9+ge"


def test_flair_finds_entities_where_it_is_at_hand_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(wish: str) -> str:
        return whole(OrganizationSettings(builders=("single",), entities=wish))[-1].settings.entities

    for at_hand, expected in (True, ["flair", "flair", "rules"]), (False, ["rules", "flair", "rules"]):
        monkeypatch.setattr(FlairEntityExtractor, "is_at_hand", lambda _, at_hand=at_hand: at_hand)
        assert [chosen(wish) for wish in ("auto", "flair", "rules")] == expected


def test_without_oracle_only_runs_are_organized() -> None:
    steps = whole(OrganizationSettings(builders=("clustering", "storm"), oracle=False, runs=("title.bm25.abstract",)))
    assert [step.slot for step in steps] == [
        "trees/clustering.title.bm25.abstract+minilm",
        "tree_scores/clustering.title.bm25.abstract+minilm",
    ]


@pytest.mark.parametrize(
    ("builder", "encoder", "told"),
    [
        ("nope", MINILM, "no builder is named 'nope'"),
        ("clustering", None, "arena index --field abstract"),
        ("few_shot", MINILM, "no language model"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_runs(
    builder: str, encoder: EncoderSettings | None, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        whole(OrganizationSettings(builders=(builder,)), encoder, no_model)
