"""The steps of AirQA: tables, passages and indexes from files; then runs, scores and the report."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from flows.pipeline.plans.steps import Step, encoder_mark, limit_mark
from schemas.identifiers import DatasetName
from schemas.llm import ModelName
from schemas.release import ReleaseDataset
from schemas.settings import BaselineName, EncoderSettings, Settings
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.paperqa.baseline import Limits, Protocol, find_paperqa_baseline
from tasks.paperqa.chunks import ChunkSettings, paperqa_chunks
from tasks.paperqa.desk import Scope
from tasks.paperqa.files import RELEASE, open_folder, open_questions
from tasks.paperqa.runs import PaperQaSettings, paperqa_run
from tasks.paperqa.scores import AnswerScoreSettings, paperqa_scores
from tasks.paperqa.store import QuestionSettings, StoreSettings, paperqa_questions, paperqa_store
from tasks.reports.paperqa_report import paperqa_report
from tasks.reports.report import ReportSettings

ENCODER_TOKENS = 256

DEFAULT_BASELINES = (
    "question_only",
    "title_abstract",
    "full_text",
    "classic_rag",
    "iterative_rag",
    "sql_agent",
    "vector_agent",
    "hybrid_agent",
)


class PaperQaFiles(Settings):
    """Files of AirQA on disk."""

    questions: Path = Field(description="Questions as JSON lines.")
    metadata: Path = Field(description="Folder of UUID.json with papers' metadata.")
    processed: Path | None = Field(default=None, description="Folder of UUID.json with processed PDF data.")
    pdfs: Path | None = Field(default=None, description="Folder with UUID.pdf at any depth: pages to look at.")


class PaperQaPlan(Settings):
    """Which systems answer, with which model, and who judges the answers."""

    baselines: tuple[BaselineName, ...] = Field(default=DEFAULT_BASELINES, description="Systems to run.")
    model: str | None = Field(default=None, description="Language model; empty: the machine's ARENA_LLM_MODEL.")
    judge: str | None = Field(
        default=None, description="Model that grades free text; empty: such answers stay unscored and count 0."
    )
    protocol: Protocol = Field(default="functions", description="How agents call tools: by function calls, or in text.")
    scopes: tuple[Scope, ...] = Field(
        default=("named", "library"),
        min_length=1,
        description="Papers that a question can use: those it names, or the whole library. A system that searches "
        "runs once for each; others run once.",
    )
    limits: Limits = Field(default=Limits(), description="Limits of a system per question.")
    limit_questions: int | None = Field(default=None, ge=1, description="Development only: the first questions.")
    repair: bool = Field(default=False, description="Repair known mistakes in the published questions.")
    chunk_characters: int = Field(default=512, ge=64, le=8192, description="Longest passage, in characters.")
    encoder: str = Field(
        default="all-MiniLM-L6-v2",
        description="Sentence encoder of passages, at most 256 tokens each; the default also works offline.",
    )


def plan_library(files: PaperQaFiles, settings: PaperQaPlan) -> list[Step]:
    """Returns the steps from files to questions, papers, passages and indexes over the passages."""
    folders: dict[str, tuple[DatasetName, Path | None]] = {
        "metadata": ("airqa_metadata", files.metadata),
        "processed": ("airqa_processed", files.processed),
    }
    papers = {name: open_folder(dataset, folder) for name, (dataset, folder) in folders.items() if folder}
    over = {"documents": "airqa/chunks"}
    return [
        Step(
            "airqa/questions",
            paperqa_questions,
            QuestionSettings(repair=settings.repair),
            {"questions": open_questions(files.questions)},
        ),
        Step("airqa/papers", paperqa_store, StoreSettings(), papers),
        Step(
            "airqa/chunks",
            paperqa_chunks,
            ChunkSettings(characters=settings.chunk_characters),
            {"papers": "airqa/papers"},
        ),
        Step("airqa/bm25", bm25, Bm25Settings(field="title_abstract"), over),
        Step(
            "airqa/embeddings",
            embeddings,
            EmbeddingSettings(
                field="title_abstract", encoder=EncoderSettings(model=settings.encoder, max_tokens=ENCODER_TOKENS)
            ),
            over,
        ),
    ]


def plan_runs(
    settings: PaperQaPlan, model: ModelName, judge: ModelName | None, pdfs: ReleaseDataset | None = None
) -> list[Step]:
    """Returns the steps that run every system, then those that score the runs; without a judge, free text is unscored.

    Raises:
        UsageError: There is no such system.
    """
    parts = ("questions", "papers", "chunks", "bm25", "embeddings")
    inputs: dict[str, str | ReleaseDataset] = {name: f"airqa/{name}" for name in parts}
    if pdfs:
        inputs["pdfs"] = pdfs
    steps: list[Step] = []
    for name, scope in _runs(settings):
        tag = run_tag(name, settings, model, scope)
        chosen = PaperQaSettings(
            baseline=name,
            baseline_version=find_paperqa_baseline(name).version,
            model=model,
            protocol=settings.protocol,
            scope=scope,
            limits=settings.limits,
            limit_questions=settings.limit_questions,
            tag=tag,
        )
        steps.append(Step(f"airqa/run/{tag}", paperqa_run, chosen, inputs))
    return steps + [plan_scores(step.slot, AnswerScoreSettings(judge=judge)) for step in steps]


def plan_scores(run_slot: str, rule: AnswerScoreSettings) -> Step:
    """Returns the step that scores the answers in a slot."""
    slot = run_slot.replace("/run/", "/scores/", 1)
    return Step(slot, paperqa_scores, rule, {"run": run_slot, "questions": "airqa/questions"})


def _runs(settings: PaperQaPlan) -> Iterator[tuple[BaselineName, Scope]]:
    """Yields the systems with the scopes that make a difference to them."""
    for name in settings.baselines:
        if find_paperqa_baseline(name).searches:
            for scope in dict.fromkeys(settings.scopes):
                yield name, scope
        else:
            yield name, "named"


def run_tag(baseline: str, settings: PaperQaPlan, model: ModelName, scope: Scope) -> str:
    """Returns `<system>+<model>`, then marks of what is unusual: `+text`, `+library`, `+<encoder>`, `-first<n>`."""
    tag = f"{baseline}+{model.short}"
    tag += "+text" if settings.protocol == "text" else ""
    tag += "+library" if scope == "library" else ""
    tag += encoder_mark(EncoderSettings(model=settings.encoder), usual=PaperQaPlan().encoder)
    return tag + limit_mark(settings.limit_questions)


def plan_page(edition: str, slots: Mapping[str, object]) -> Step:
    """Returns the step that writes the report on all scored runs of an edition."""
    tags = [slot.removeprefix("airqa/scores/") for slot in slots if slot.startswith("airqa/scores/")]
    inputs: dict[str, str | ReleaseDataset] = {"questions": "airqa/questions"}
    for tag in sorted(tags):
        inputs |= {f"paperqa_run:{tag}": f"airqa/run/{tag}", f"paperqa_scores:{tag}": f"airqa/scores/{tag}"}
    return Step(
        "airqa/report",
        paperqa_report,
        ReportSettings(title="Questions over papers", release=RELEASE, edition=edition),
        inputs,
    )
