"""The one composition of the pipeline: which stages, from which inputs, in which order.

What belongs here: steps as data. What does not: executing them (`pipeline`), Prefect (`as_task`), the stages.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from schemas.errors import ReleaseError
from schemas.identifiers import DatasetName, ReleaseId
from schemas.identifiers import Field as DocumentField
from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, RetrieverName, RunSettings, Settings
from tasks.corpus.documents import DocumentSettings, documents
from tasks.corpus.extracted_mindmaps import ExtractedMindmapSettings, extracted_mindmaps
from tasks.corpus.figures import FigureSettings, figures
from tasks.corpus.papers import PapersSettings, papers
from tasks.corpus.records import RecordSettings, abstract_records, citation_records, full_texts, paper_records
from tasks.corpus.references import ReferenceSettings, references
from tasks.corpus.statistics import StatisticsSettings, statistics
from tasks.corpus.surveys import SurveySettings, surveys
from tasks.corpus.topics import TopicSettings, topics
from tasks.figures.http import HttpFigureSettings
from tasks.index.ann import AnnSettings, ann
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.reports.report import ReportSettings, report
from tasks.retrieval.system import find_baseline
from tasks.stats.runs import SystemSettings, run
from tasks.stats.scores import ScoreSettings, scores
from tasks.store.recipes import PlannedStage
from tasks.store.stage import AnyStage

_SHORT_NAMES = {"all-MiniLM-L6-v2": "minilm"}


RECORDS: Mapping[str, DatasetName] = {
    "paper_records": "papers",
    "abstract_records": "abstracts",
    "citation_records": "citations",
}
"""What the record stages read, by slot; `full_texts` reads `s2orc_v2` or `s2orc`."""

RECORD_STAGES = (*RECORDS, "full_texts")
"""Slots of all record stages, in the order in which they are built."""


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
        return PlannedStage(
            stage=self.stage.name, parameters=self.settings.model_dump(mode="json"), inputs=inputs
        )


def plan_corpus(
    settings: CorpusSettings, release: Mapping[DatasetName, ReleaseDataset], choose_model: Callable[[], ModelName]
) -> list[Step]:
    """From release files to documents, topics, qrels, mind-maps and statistics.

    Args:
        settings: What is built, and how.
        release: Its files.
        choose_model: Which model is asked; called only when a stage asks one.

    Raises:
        ReleaseError: The release lacks a dataset that the settings need.
        UsageError: A stage asks a model where there is none.
    """
    texts = release.get("s2orc_v2") or release.get("s2orc")
    if settings.corpus == "full_text" and texts is None:
        raise ReleaseError(
            "the release has no full texts (dataset s2orc_v2 or s2orc); add it, or build with --corpus abstract"
        )
    files = {slot: {"files": release[dataset]} for slot, dataset in RECORDS.items()}
    with_texts = {"full_texts": {"files": texts}} if texts else {}
    return _plan_from_records(settings, files | with_texts, release.get("figures"), choose_model)


class Update(NamedTuple):
    """How the records of a release come about from those of an earlier edition.

    Attributes:
        release: The later release.
        records: Of each record stage that the edition has, by slot: its dataset, and the diffs of it in order.
    """

    release: ReleaseId
    records: Mapping[str, tuple[Ref, Sequence[ReleaseDataset]]]


def plan_update(settings: CorpusSettings, update: Update, choose_model: Callable[[], ModelName]) -> list[Step]:
    """As `plan_corpus`, from an earlier edition's records and the diffs since; figures can come from URLs alone.

    Raises:
        ReleaseError: The edition has no full texts, which the settings need.
    """
    if settings.corpus == "full_text" and "full_texts" not in update.records:
        raise ReleaseError("the edition has no full texts; build the release whole, or with --corpus abstract")
    inputs = {
        slot: {"earlier": earlier, **{f"diff-{place:03d}": diff for place, diff in enumerate(diffs)}}
        for slot, (earlier, diffs) in update.records.items()
    }
    return _plan_from_records(settings, inputs, None, choose_model)


def _plan_from_records(
    settings: CorpusSettings,
    inputs: Mapping[str, Mapping[str, ReleaseDataset | Ref]],
    figures_found: ReleaseDataset | None,
    choose_model: Callable[[], ModelName],
) -> list[Step]:
    """All steps, with the inputs of the record stages by slot."""
    maps = _plan_maps(settings, figures_found, choose_model) if settings.mindmaps == "figures" else []
    records = RecordSettings(buckets=settings.buckets)
    stages = (paper_records, abstract_records, citation_records, full_texts)
    with_texts = _same("full_texts") if "full_texts" in inputs else {}
    limited = {"references": "references"} if settings.limit_documents else {}
    return [
        *(Step(stage.name, stage, records, inputs[stage.name]) for stage in stages if stage.name in inputs),
        Step("papers", papers, PapersSettings(), _same("paper_records", "abstract_records") | with_texts),
        Step(
            "surveys",
            surveys,
            SurveySettings(
                word=settings.survey_word,
                selector=settings.survey_selector,
                model=choose_model() if settings.survey_selector == "model" else None,
            ),
            _same("papers"),
        ),
        Step("references", references, ReferenceSettings(), _same("surveys", "citation_records") | with_texts),
        Step(
            "documents",
            documents,
            DocumentSettings(corpus=settings.corpus, limit=settings.limit_documents),
            _same("papers") | limited,
        ),
        Step(
            "topics",
            topics,
            TopicSettings(year_only_survey=settings.year_only_survey),
            _same("surveys", "papers", "references", "documents"),
        ),
        *maps,
        Step(
            "statistics",
            statistics,
            StatisticsSettings(),
            _same("papers", "documents", "surveys", "references", "topics", *(["mindmaps"] if maps else [])),
        ),
    ]


def _plan_maps(
    settings: CorpusSettings, found: ReleaseDataset | None, choose_model: Callable[[], ModelName]
) -> list[Step]:
    """Figures of the surveys, from URLs or else the release's, and the mind-maps that a model reads off them."""
    urls = {"list_url": settings.figure_list_url, "picture_url": settings.figure_picture_url}
    http = HttpFigureSettings.model_validate(urls) if any(urls.values()) else None
    if http is None and found is None:
        raise ReleaseError(
            "the release has no figures (a folder figures with data/<corpus_id>.json and img/); add it, give the URLs "
            "of a web server (--figure-list-url, --figure-picture-url), or build with --mindmaps none"
        )
    files = {"files": found} if found and http is None else {}
    reading = ExtractedMindmapSettings(model=choose_model())
    return [
        Step("figures", figures, FigureSettings(buckets=settings.buckets, http=http), {"topics": "topics", **files}),
        Step("mindmaps", extracted_mindmaps, reading, _same("topics", "figures")),
    ]


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
    if engine.encoder and engine.encoder.model != EncoderSettings().model:
        tag += f"+{short_name(engine.encoder.model)}"
    if engine.ann:
        tag += f"+{engine.ann}"
    if model:
        tag += f"+{model.short}"
    return tag if settings.limit_topics is None else f"{tag}-first{settings.limit_topics}"


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
    maps = _same("mindmaps") if oracle else {}
    return Step(slot, run, system, _same("topics", "documents", "surveys") | engine.inputs | maps)


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
    inputs = _same("topics", "statistics") | (_same("mindmaps") if "mindmaps" in slots else {})
    for kind, scored in REPORTED.items():
        for slot in sorted(slot for slot in slots if slot.startswith(f"{kind}/")):
            if (scores_slot := slot.replace(kind, scored, 1)) in slots:
                inputs |= {slot.replace("/", ":", 1): slot, scores_slot.replace("/", ":", 1): scores_slot}
    return [Step("report", report, settings, inputs)]


def _same(*names: str) -> dict[str, str]:
    """Inputs whose slot is named as the input is."""
    return {name: name for name in names}


def _indexed_inputs(field: DocumentField) -> dict[str, str]:
    return _same("documents", "full_texts") if field == "text" else _same("documents")


def short_name(model: str) -> str:
    """An encoder in the name of a run: `minilm`."""
    name = model.rstrip("/").rpartition("/")[2]
    return _SHORT_NAMES.get(name) or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
