"""The one composition of the pipeline: which stages, from which inputs, in which order."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from schemas.identifiers import Field as DocumentField
from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import EncoderSettings, IndexSettings, RetrieverName, RunSettings, Settings
from tasks.index.ann import AnnSettings, ann
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.ranking.baseline import find_baseline
from tasks.ranking.runs import SystemSettings, run
from tasks.ranking.scores import ScoreSettings, scores
from tasks.reports.report import ReportSettings, report
from tasks.store.recipes import PlannedStage
from tasks.store.stage import AnyStage

_SHORT_NAMES = {"all-MiniLM-L6-v2": "minilm"}


class Step(NamedTuple):
    """One stage of a plan.

    Attributes:
        slot: Under which name the dataset is recorded in the edition.
        stage: What is executed.
        settings: Its parameters.
        inputs: By the stage's input names: slot of an earlier step (or of the edition), release files, a dataset.
    """

    slot: str
    stage: AnyStage
    settings: Settings
    inputs: Mapping[str, str | ReleaseDataset | Ref]

    def planned(self) -> PlannedStage:
        """The step as an edition's recipe keeps it."""
        inputs = {
            name: item.model_copy(update={"directory": item.directory.absolute()})
            if isinstance(item, ReleaseDataset)
            else item
            for name, item in self.inputs.items()
        }
        return PlannedStage(stage=self.stage.name, parameters=self.settings.model_dump(mode="json"), inputs=inputs)


def plan_index(settings: IndexSettings) -> list[Step]:
    """Indexes over the edition's documents."""
    lexical = [
        Step(f"bm25/{field}", bm25, Bm25Settings(field=field), _indexed_inputs(field)) for field in settings.bm25_fields
    ]
    dense = [
        Step(
            f"embeddings/{field}",
            embeddings,
            EmbeddingSettings(field=field, encoder=settings.encoder),
            _indexed_inputs(field),
        )
        for field in settings.dense_fields
    ]
    approximate = [
        Step(f"ann/{field}", ann, AnnSettings(kind=settings.ann), {"embeddings": f"embeddings/{field}"})
        for field in settings.dense_fields
        if settings.ann != "flat"
    ]
    return [*lexical, *dense, *approximate]


class Engine(NamedTuple):
    """What the systems of one run search with: a retriever over a field, and the edition's choices behind it.

    Attributes:
        retriever: Which engine.
        field: Which index.
        encoder: Of the field's embeddings; None when the retriever has no use for them.
        ann: Kind of the field's approximate index; None: exact search.
    """

    retriever: RetrieverName
    field: DocumentField
    encoder: EncoderSettings | None = None
    ann: str | None = None

    @property
    def inputs(self) -> dict[str, str]:
        """The indexes' slots by the run stage's input names."""
        names = ["bm25"] if self.retriever != "dense" else []
        names += ["embeddings"] if self.encoder else []
        names += ["ann"] if self.ann else []
        return {name: f"{name}/{self.field}" for name in names}


def run_tag(baseline: str, engine: Engine, settings: RunSettings, model: ModelName | None = None) -> str:
    """The name of a run: `<baseline>.<retriever>.<field>`, then whatever differs from what the name promises.

    That is `@<cutoff>` unless 100, `+<encoder>` unless the production encoder, `+<kind>` of an approximate index,
    `+<model>` that the baseline asks, and `-first<n>` when the topics are limited.
    """
    tag = f"{baseline}.{engine.retriever}.{engine.field}"
    if settings.cutoff != 100:
        tag += f"@{settings.cutoff}"
    if engine.encoder:
        tag += encoder_mark(engine.encoder.model)
    if engine.ann:
        tag += f"+{engine.ann}"
    if model:
        tag += f"+{model.short}"
    return tag + limit_mark(settings.limit_topics)


def plan_run(
    name: str, engine: Engine, settings: RunSettings, model: ModelName | None, *, oracle: bool = False
) -> Step:
    """One baseline with one engine; with `oracle` it finds the survey's own references alone, and is no result but the
    outline that it leaves, of topics that have a mind-map.

    Raises:
        UsageError: The baseline is not known.
    """
    tag = run_tag(f"{name}.oracle" if oracle else name, engine, settings, model)
    system = SystemSettings(
        baseline=name,
        baseline_version=find_baseline(name).version,
        retriever=engine.retriever,
        field=engine.field,
        cutoff=settings.cutoff,
        limit_topics=settings.limit_topics,
        seed=settings.seed,
        references="oracle" if oracle else "corpus",
        model=model,
        tag=tag,
    )
    slot = f"outlines/{tag}" if oracle else f"run/{tag}"
    maps = same_names("mindmaps") if oracle else {}
    return Step(slot, run, system, same_names("topics", "documents", "surveys") | engine.inputs | maps)


def plan_runs(settings: RunSettings, engines: Sequence[Engine], choose_model: Callable[[], ModelName]) -> list[Step]:
    """Every baseline with every engine, then the scores of each run.

    Args:
        settings: Which systems.
        engines: What they search with.
        choose_model: Which model is asked; called only when a baseline asks one.

    Raises:
        UsageError: A baseline is not known, or asks a model where there is none.
    """
    runs: list[Step] = []
    for name in settings.baselines:
        model = choose_model() if find_baseline(name).asks else None
        runs += [plan_run(name, engine, settings, model) for engine in engines]
    rule = ScoreSettings(seed=settings.seed, limit_topics=settings.limit_topics)
    return runs + [
        Step(step.slot.replace("run/", "scores/", 1), scores, rule, {"run": step.slot, "topics": "topics"})
        for step in runs
    ]


REPORTED = {"run": "scores", "trees": "tree_scores"}
"""What a report shows, by the first word of the slot, once there are scores of it."""


def plan_report(settings: ReportSettings, slots: Collection[str]) -> list[Step]:
    """The report on everything among an edition's slots that has scores."""
    inputs = same_names("topics", "statistics") | (same_names("mindmaps") if "mindmaps" in slots else {})
    for kind, scored in REPORTED.items():
        for slot in sorted(slot for slot in slots if slot.startswith(f"{kind}/")):
            if (scores_slot := slot.replace(kind, scored, 1)) in slots:
                inputs |= {slot.replace("/", ":", 1): slot, scores_slot.replace("/", ":", 1): scores_slot}
    return [Step("report", report, settings, inputs)]


def same_names(*names: str) -> dict[str, str]:
    """Inputs whose slot is named as the input is."""
    return {name: name for name in names}


def _indexed_inputs(field: DocumentField) -> dict[str, str]:
    return same_names("documents", "full_texts") if field == "text" else same_names("documents")


def encoder_mark(model: str, usual: str = EncoderSettings().model) -> str:
    """What the name of a run says of its encoder: nothing of the usual one, else `+minilm`."""
    if model == usual:
        return ""
    name = model.rstrip("/").rpartition("/")[2]
    return "+" + (_SHORT_NAMES.get(name) or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"))


def limit_mark(limit: int | None) -> str:
    """What a name says when not all topics, questions or queries were asked: `-first20`."""
    return "" if limit is None else f"-first{limit}"
