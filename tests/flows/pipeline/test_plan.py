"""The composition of the real stages: order, inputs, names of runs, and which setting touches which stage."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.pipeline.plans.corpus import plan_corpus
from flows.pipeline.plans.index import plan_index
from flows.pipeline.plans.ranking import plan_runs, run_tag
from flows.pipeline.plans.steps import Engine, Step
from schemas.errors import ReleaseError, UsageError
from schemas.identifiers import Digest, Key
from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.release import ReleaseDataset, SourceFile
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, RunSettings
from schemas.topic import Topic
from tasks.ranking import baseline as baseline_module
from tasks.ranking.baseline import Baseline, Kit, Ranking
from tasks.store.stages import stage_position
from tasks.store.store import Request

MODEL = ModelName(provider="host", model="lab/Model-1")


def a_release(*datasets: str) -> dict[str, ReleaseDataset]:
    file = SourceFile(name="part.gz", size=1, sha256="0")
    return {
        name: ReleaseDataset(release="2026-01-06", dataset=name, directory=Path("x"), files=(file,))
        for name in datasets
    }


WITH_TEXTS = a_release("papers", "abstracts", "citations", "s2orc_v2")
WITHOUT_TEXTS = a_release("papers", "abstracts", "citations")
MINILM = EncoderSettings(model="all-MiniLM-L6-v2")


def keys_of(steps: list[Step]) -> dict[str, Key]:
    """Returns the key of every step, with each dataset's key in place of its digest."""
    refs: dict[str, Ref] = {}
    for step in steps:
        inputs = {n: refs[source] if isinstance(source, str) else source for n, source in step.inputs.items()}
        key = Request(step.stage, step.settings, inputs).key
        refs[step.slot] = Ref(stage=step.stage.name, key=key, digest=Digest(key))
    return {slot: ref.key for slot, ref in refs.items()}


def whole_plan(
    corpus: CorpusSettings = CorpusSettings(), index: IndexSettings = IndexSettings(), runs: RunSettings | None = None
) -> list[Step]:
    runs = runs or RunSettings(baselines=("title",), retrievers=("bm25", "hybrid"))
    encoders = {"bm25": None, "dense": index.encoder, "hybrid": index.encoder}
    kind = None if index.ann == "flat" else index.ann
    engines = [Engine(name, runs.field, encoders[name], kind if encoders[name] else None) for name in runs.retrievers]
    return [
        *plan_corpus(corpus, WITH_TEXTS, lambda: MODEL),
        *plan_index(index),
        *plan_runs(runs, engines, lambda _=None: MODEL),
    ]


fields = st.sampled_from(["title", "abstract", "text"])


@given(
    st.builds(
        CorpusSettings,
        corpus=st.sampled_from(["full_text", "abstract"]),
        survey_scope=st.sampled_from(["full_text", "references", "all", None]),
        limit_documents=st.none() | st.integers(1, 100),
    ),
    st.builds(
        IndexSettings,
        bm25_fields=st.just(("abstract",)) | st.tuples(fields, st.just("abstract")),
        dense_fields=st.just(("abstract",)),
        ann=st.sampled_from(["flat", "hnsw"]),
    ),
)
def test_every_input_is_made_before_it_is_needed_and_stages_are_in_the_order_of_data(corpus, index):
    made: set[str] = set()
    places: list[int] = []
    for step in whole_plan(corpus, index):
        assert {source for source in step.inputs.values() if isinstance(source, str)} <= made
        made.add(step.slot)
        places.append(stage_position(step.stage.name))
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("changed", "touched"),
    [
        ({"runs": RunSettings(baselines=("title",), retrievers=("bm25", "hybrid"), cutoff=10)}, {"run", "scores"}),
        ({"runs": RunSettings(baselines=("title",), retrievers=("bm25", "hybrid"), seed=1)}, {"run", "scores"}),
        ({"index": IndexSettings(encoder=MINILM)}, {"embeddings", "run", "scores"}),
        ({"corpus": CorpusSettings(year_only_survey="jan1")}, {"topics", "statistics", "run", "scores"}),
        ({"corpus": CorpusSettings(references="both")}, {"references", "topics", "statistics", "run", "scores"}),
    ],
)
def test_a_setting_touches_the_stages_that_it_can_change(changed, touched):
    before = {(step.stage.name, key) for step, key in zip(whole_plan(), keys_of(whole_plan()).values(), strict=True)}
    steps = whole_plan(**changed)
    after = {(step.stage.name, key) for step, key in zip(steps, keys_of(steps).values(), strict=True)}

    assert {stage for stage, _ in after - before} == touched


def test_another_baseline_keeps_the_existing_runs():
    both = RunSettings(baselines=("title", "feedback"), retrievers=("hybrid",))
    one = keys_of(whole_plan(runs=RunSettings(baselines=("title",), retrievers=("hybrid",))))

    assert one.items() <= keys_of(whole_plan(runs=both)).items()


def test_full_texts_are_optional_where_the_corpus_does_not_need_them():
    slots = [step.slot for step in plan_corpus(CorpusSettings(corpus="abstract"), WITHOUT_TEXTS, no_model)]

    assert "full_texts" not in slots
    with pytest.raises(ReleaseError, match="--corpus abstract"):
        plan_corpus(CorpusSettings(), WITHOUT_TEXTS, no_model)


@pytest.mark.parametrize(
    ("settings", "scope", "source"),
    [
        (CorpusSettings(), "full_text", "bibliography"),  # as the paper
        (CorpusSettings(corpus="abstract"), "all", "both"),
        (CorpusSettings(survey_scope="references", references="citations"), "references", "citations"),
    ],
)
def test_surveys_and_their_references_follow_the_corpus_unless_the_settings_say_otherwise(settings, scope, source):
    steps = {step.slot: step for step in plan_corpus(settings, WITH_TEXTS, no_model)}
    assert steps["surveys"].settings.model_dump()["scope"] == scope
    assert steps["references"].settings.model_dump()["source"] == source
    assert ("citation_records" in steps["surveys"].inputs) == (scope == "references")


@pytest.mark.parametrize("needs", [{"survey_scope": "full_text"}, {"references": "bibliography"}])
def test_full_texts_are_required_for_what_only_they_can_tell(needs):
    settings = CorpusSettings.model_validate({"corpus": "abstract", **needs})
    with pytest.raises(ReleaseError, match="--survey-scope full_text and --references bibliography"):
        plan_corpus(settings, WITHOUT_TEXTS, no_model)


def test_mind_maps_are_read_from_figures_of_the_release_or_of_a_web_server():
    read = CorpusSettings(mindmaps="figures", survey_selector="model")
    found = a_release("figures")["figures"]
    steps = {step.slot: step for step in plan_corpus(read, WITH_TEXTS | {"figures": found}, lambda: MODEL)}
    assert steps["figures"].inputs == {"topics": "topics", "files": found}
    assert steps["mindmaps"].settings.model_dump()["model"] == steps["surveys"].settings.model_dump()["model"]
    assert {"mindmaps", "paper_records", "full_texts"} <= steps["statistics"].inputs.keys()
    with pytest.raises(ReleaseError, match="--figure-list-url"):
        plan_corpus(read, WITH_TEXTS, lambda: MODEL)
    urls = {"figure_list_url": "http://h/{corpus_id}", "figure_picture_url": "http://h/{corpus_id}/{picture}"}
    fetched = plan_corpus(read.model_copy(update=urls), WITH_TEXTS, lambda: MODEL)
    assert {step.slot: set(step.inputs) for step in fetched}["figures"] == {"topics"}


def no_model():
    raise AssertionError("no stage asks a model")


@pytest.mark.parametrize(
    ("engine", "settings", "tag"),
    [
        (Engine("bm25", "abstract"), RunSettings(), "title.bm25.abstract"),
        (Engine("bm25", "text"), RunSettings(cutoff=10), "title.bm25.text@10"),
        (Engine("bm25", "text", stemming="english"), RunSettings(), "title.bm25.text+stemmed"),
        (Engine("dense", "abstract", EncoderSettings()), RunSettings(), "title.dense.abstract"),
        (Engine("dense", "abstract", MINILM), RunSettings(), "title.dense.abstract+minilm"),
        (
            Engine("hybrid", "title", EncoderSettings(model="a/My_Model.v2"), "ivf"),
            RunSettings(cutoff=5),
            "title.hybrid.title@5+my-model-v2+ivf",
        ),
        (Engine("bm25", "abstract"), RunSettings(limit_topics=3), "title.bm25.abstract-first3"),
        (Engine("bm25", "abstract"), RunSettings(sample_topics=200), "title.bm25.abstract-sample200"),
        (Engine("bm25", "abstract"), RunSettings(sample_topics=9, seed=7), "title.bm25.abstract-sample9s7"),
        (
            Engine("bm25", "abstract"),
            RunSettings(sample_topics=9, sample_systems=("storm",)),
            "title.bm25.abstract",
        ),
    ],
)
def test_a_tag_names_what_differs_from_the_defaults(engine, settings, tag):
    assert run_tag("title", engine, settings) == tag


def test_a_sample_can_be_for_some_systems_only():
    runs = RunSettings(baselines=("title", "storm"), retrievers=("bm25",), sample_topics=5, sample_systems=("storm",))
    steps = plan_runs(runs, [Engine("bm25", "abstract")], lambda _=None: MODEL)
    sizes = {step.slot: step.settings.model_dump()["sample_topics"] for step in steps}
    storm = "storm.bm25.abstract+model-1-sample5"
    assert sizes == {
        "run/title.bm25.abstract": None,
        f"run/{storm}": 5,
        "scores/title.bm25.abstract": None,
        f"scores/{storm}": 5,
    }


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"sample_topics": 5, "sample_systems": ("strom",)}, "names strom, and the systems to run are title, storm"),
        ({"sample_systems": ("storm",)}, "add --sample-topics"),
    ],
)
def test_a_sample_for_nobody_is_refused(sample, message):
    runs = RunSettings.model_validate({"baselines": ("title", "storm"), **sample})
    with pytest.raises(UsageError, match=message):
        plan_runs(runs, [Engine("bm25", "abstract")], lambda _=None: MODEL)


def test_an_unknown_baseline_is_refused_before_anything_runs():
    with pytest.raises(UsageError, match=r"no baseline is named 'nope'; there are: .*title"):
        whole_plan(runs=RunSettings(baselines=("nope",)))


def test_a_run_names_the_model_that_it_asked():
    assert run_tag("decomposer", Engine("bm25", "abstract"), RunSettings(), MODEL) == "decomposer.bm25.abstract+model-1"


def test_the_citation_graph_is_an_input_of_systems_that_use_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(topic: Topic, kit: Kit) -> Ranking:
        return Ranking(kit.desk.search(topic.title, kit.cutoff))

    probe = Baseline("probe", "For a test.", follow, 1, graph=True)
    monkeypatch.setitem(baseline_module._registry._things, "probe", probe)
    engine = Engine("bm25", "abstract")
    steps = plan_runs(RunSettings(baselines=("title", "probe")), [engine], lambda _=None: MODEL)
    inputs = {step.slot: step.inputs for step in steps if step.stage.name == "run"}
    assert inputs["run/probe.bm25.abstract"] == {**inputs["run/title.bm25.abstract"], "edges": "edges"}
