"""The steps from a release to documents, topics, relevance judgments, mind-maps and statistics."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2
from typing import NamedTuple

from flows.pipeline.plans.steps import Step, same_names
from schemas.errors import ReleaseError
from schemas.identifiers import DatasetName, ReleaseId
from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import CorpusSettings
from tasks.corpus.documents import DocumentSettings, documents
from tasks.corpus.edges import EdgeSettings, edges
from tasks.corpus.extracted_mindmaps import ExtractedMindmapSettings, extracted_mindmaps
from tasks.corpus.figures.stage import FigureSettings, figures
from tasks.corpus.figures.website import HttpFigureSettings
from tasks.corpus.mindmaps import MindmapSettings, mindmaps
from tasks.corpus.papers import PapersSettings, papers
from tasks.corpus.published_surveys import PublishedSurveySettings, published_surveys
from tasks.corpus.records import RecordSettings, abstract_records, citation_records, full_texts, paper_records
from tasks.corpus.references import ReferenceSettings, references
from tasks.corpus.statistics import StatisticsSettings, statistics
from tasks.corpus.survey_selector import find_selector
from tasks.corpus.surveys import SurveySettings, surveys
from tasks.corpus.topics import TopicSettings, topics

RECORDS: Mapping[str, DatasetName] = {
    "paper_records": "papers",
    "abstract_records": "abstracts",
    "citation_records": "citations",
}
"""The dataset that each record stage reads, by slot; `full_texts` reads `s2orc_v2` or `s2orc`."""

RECORD_STAGES = (*RECORDS, "full_texts")
"""Slots of all record stages, in build order."""


LEAST_BUCKETS, MOST_BUCKETS = 16, 4096
BUCKET_BYTES = 512 * 2**20
"""Bytes of a release's compressed files that a bucket takes."""


def choose_buckets(release: Mapping[DatasetName, ReleaseDataset]) -> int:
    """Returns the number of buckets that suits the size of a release: a power of two, at least 16."""
    files = [file for dataset in release.values() if dataset.dataset != "figures" for file in dataset.files]
    wanted = sum(file.size for file in files) / BUCKET_BYTES
    return min(MOST_BUCKETS, max(LEAST_BUCKETS, 1 << ceil(log2(max(1.0, wanted)))))


def plan_corpus(
    settings: CorpusSettings, release: Mapping[DatasetName, ReleaseDataset], choose_model: Callable[[], ModelName]
) -> list[Step]:
    """Returns the steps from release files to documents, topics, qrels, mind-maps and statistics.

    Args:
        settings: What to build, and how.
        release: Files of the release.
        choose_model: Returns the model to ask; called only when a stage asks one.

    Raises:
        ReleaseError: The release lacks a dataset that the settings need.
        UsageError: A stage asks a model and none is set up.
    """
    settings = _with_buckets(settings, choose_buckets(release))
    texts = release.get("s2orc_v2") or release.get("s2orc")
    if settings.needs_full_texts and texts is None:
        raise ReleaseError(
            "the release has no full texts (dataset s2orc_v2 or s2orc); add it, or build with --corpus abstract and "
            "without --survey-scope full_text and --references bibliography"
        )
    files = {slot: {"files": release[dataset]} for slot, dataset in RECORDS.items()}
    with_texts = {"full_texts": {"files": texts}} if texts else {}
    steps = _plan_from_records(settings, files | with_texts, release.get("figures"), choose_model)
    return _with_published(settings, steps, release) if "surveys" in release else steps


def _with_published(
    settings: CorpusSettings, steps: Sequence[Step], release: Mapping[DatasetName, ReleaseDataset]
) -> list[Step]:
    """Returns the steps for an imported set, whose surveys, references and mind-maps its authors chose."""
    given = {
        "surveys": Step("surveys", published_surveys, PublishedSurveySettings(), {"files": release["surveys"]}),
        "references": Step(
            "references",
            references,
            ReferenceSettings(source=settings.references or "citations"),
            same_names("surveys", "citation_records"),
        ),
    }
    planned = [given.get(step.slot, step) for step in steps]
    if "mindmaps" in release and not any(step.slot == "mindmaps" for step in planned):
        inputs = {"topics": "topics", "maps": release["mindmaps"]}
        *before, last = planned
        maps = Step("mindmaps", mindmaps, MindmapSettings(), inputs)
        planned = [*before, maps, last._replace(inputs={**last.inputs, "mindmaps": "mindmaps"})]
    return planned


class Update(NamedTuple):
    """An earlier edition's records and the diffs that turn them into those of a later release.

    Attributes:
        release: The later release.
        records: For each record slot of the edition: its dataset, and the diffs of it in order.
        buckets: Number of buckets of these datasets.
        figures: Figures of the later release, or else of the earlier one.
    """

    release: ReleaseId
    records: Mapping[str, tuple[Ref, Sequence[ReleaseDataset]]]
    figures: ReleaseDataset | None = None
    buckets: int = LEAST_BUCKETS


def plan_update(settings: CorpusSettings, update: Update, choose_model: Callable[[], ModelName]) -> list[Step]:
    """Returns the same steps as `plan_corpus`, from an earlier edition's records and the diffs since then.

    Raises:
        ReleaseError: The edition has no full texts, which the settings need.
    """
    if settings.needs_full_texts and "full_texts" not in update.records:
        raise ReleaseError(
            "the edition has no full texts; build the release whole, or with --corpus abstract and without "
            "--survey-scope full_text and --references bibliography"
        )
    inputs = {
        slot: {"earlier": earlier, **{f"diff-{place:03d}": diff for place, diff in enumerate(diffs)}}
        for slot, (earlier, diffs) in update.records.items()
    }
    settings = _with_buckets(settings, update.buckets)
    return _plan_from_records(settings, inputs, update.figures, choose_model)


def _with_buckets(settings: CorpusSettings, usual: int) -> CorpusSettings:
    """Returns the settings with a number of buckets: as chosen, or the usual one."""
    return settings.model_copy(update={"buckets": settings.buckets or usual})


def _plan_from_records(
    settings: CorpusSettings,
    inputs: Mapping[str, Mapping[str, ReleaseDataset | Ref]],
    figures_found: ReleaseDataset | None,
    choose_model: Callable[[], ModelName],
) -> list[Step]:
    """Returns all steps; `inputs` are the inputs of the record stages, by slot."""
    maps = _plan_maps(settings, figures_found, choose_model) if settings.mindmaps == "figures" else []
    records = RecordSettings(buckets=settings.buckets or LEAST_BUCKETS, line_mib=settings.line_mib)
    stages = (paper_records, abstract_records, citation_records, full_texts)
    with_texts = same_names("full_texts") if "full_texts" in inputs else {}
    citing = same_names("citation_records") | with_texts if settings.candidate_scope == "references" else {}
    limited = {"references": "references"} if settings.limit_documents else {}
    counted = [stage.name for stage in stages if stage.name in inputs]
    with_maps = ["mindmaps"] if maps else []
    return [
        *(Step(stage.name, stage, records, inputs[stage.name]) for stage in stages if stage.name in inputs),
        Step("papers", papers, PapersSettings(), same_names("paper_records", "abstract_records") | with_texts),
        Step(
            "surveys",
            surveys,
            SurveySettings(
                word=settings.survey_word,
                scope=settings.candidate_scope,
                english=settings.survey_english,
                selector=settings.survey_selector,
                model=choose_model() if find_selector(settings.survey_selector).prompt_id else None,
            ),
            same_names("papers") | citing,
        ),
        Step(
            "references",
            references,
            ReferenceSettings(source=settings.link_source),
            same_names("surveys", "citation_records") | with_texts,
        ),
        Step(
            "documents",
            documents,
            DocumentSettings(corpus=settings.corpus, limit=settings.limit_documents),
            same_names("papers") | limited,
        ),
        Step(
            "topics",
            topics,
            TopicSettings(year_only_survey=settings.year_only_survey),
            same_names("surveys", "papers", "references", "documents"),
        ),
        Step("edges", edges, EdgeSettings(), same_names("documents", "citation_records")),
        *maps,
        Step(
            "statistics",
            statistics,
            StatisticsSettings(),
            same_names("papers", "documents", "surveys", "references", "topics", *with_maps, *counted),
        ),
    ]


def _plan_maps(
    settings: CorpusSettings, found: ReleaseDataset | None, choose_model: Callable[[], ModelName]
) -> list[Step]:
    """Returns the steps that get the surveys' figures (from URLs, or else the release) and read mind-maps from them."""
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
        Step(
            "figures",
            figures,
            FigureSettings(buckets=settings.buckets or LEAST_BUCKETS, http=http),
            {"topics": "topics", **files},
        ),
        Step("mindmaps", extracted_mindmaps, reading, same_names("topics", "figures")),
    ]
