"""The `report` stage: the results of an edition as one page and as files."""

import importlib
import pkgutil
from collections.abc import Iterator

from pydantic import Field

from schemas.llm import STAND_IN
from schemas.settings import EncoderSettings, Settings
from tasks.corpus.documents import documents
from tasks.exports.edition import RUN, Edition
from tasks.exports.exporter import find_exporter
from tasks.index.embeddings import embeddings
from tasks.reports.blocks import FigureBlock, Report, Section, counted
from tasks.reports.html import to_html
from tasks.reports.render import to_csv, to_json, to_markdown
from tasks.reports.source import ReportSource
from tasks.store.dataset import Dataset
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

ORDER = ("retrieval", "parts", "organization", "corpus", "lineage")
"""Sections that come first, in this order; others follow by name."""


class ReportSettings(Settings):
    """The page's title and the edition that it shows."""

    title: str = Field(description="Headline.")
    release: str = Field(description="Semantic Scholar's release.")
    edition: str = Field(description="Edition's name.")


@stage("report", version=6, settings=ReportSettings, after="search_report")
def report(work: Workspace[ReportSettings]) -> None:
    """Writes report.html, report.md, report.json, a CSV per table, an SVG per figure, and TREC files.

    Inputs: `topics`, `statistics`, and `run:<tag>` with `scores:<tag>` for every run; where there are mind-maps also
    `mindmaps`, and `trees:<tag>` with `tree_scores:<tag>` for every system that organised them.
    """
    source = ReportSource({name: work.dataset(name) for name in work.inputs})
    for shard in work.pending(["report"]):
        with shard:
            page = compose(source, work.settings)
            write_page(shard, page)
            _write_trec(shard, source)
            shard.counts.kept = len(source.tags)


def compose(source: ReportSource, settings: ReportSettings) -> Report:
    """Returns the report's content: every section that has something to show."""
    subtitle = (
        f"Edition {settings.edition}, made from Semantic Scholar's release {settings.release}: "
        f"{len(source.topics):,} topics, {sum(topic.relevant for topic in source.topics):,} relevant documents, "
        f"{counted(len(source.tags), 'run')}."
    )
    return Report(settings.title, subtitle, tuple(_sections(source)), tuple(warnings(source)))


def _sections(source: ReportSource) -> Iterator[Section]:
    package = importlib.import_module("tasks.reports.sections")
    names = {module.name for module in pkgutil.iter_modules(package.__path__)}
    for name in [*ORDER, *sorted(names - set(ORDER))]:
        yield from importlib.import_module(f"{package.__name__}.{name}").sections(source)


def warnings(source: ReportSource) -> Iterator[str]:
    """Yields what makes figures of an edition unfit for comparison."""
    usual = EncoderSettings().model
    for model in sorted(
        {d.manifest.settings(embeddings).encoder.model for d in source.of_stage("embeddings")} - {usual}
    ):
        yield f"Dense and hybrid runs use the encoder {model} instead of {usual}: do not compare them with the paper's."
    for dataset in source.of_stage("documents"):
        if limit := dataset.manifest.settings(documents).limit:
            yield f"The corpus was limited to about {limit:,} documents: use these figures for development only."
    if any(_asked(dataset) == STAND_IN for dataset in source.datasets.values()):
        yield (
            f"Where a name says {STAND_IN}, a program answered by rule in place of a language model. Such figures show "
            "that the pipeline works; they say nothing about language models."
        )
    stages = ("surveys", "extracted_mindmaps")
    if played := [name for name in stages if any(_asked(d) == STAND_IN for d in source.of_stage(name))]:
        yield f"The {STAND_IN} answered for {' and '.join(played)}: this edition is a rehearsal."
    runs = {tag: source.datasets[f"run:{tag}"].manifest.parameters for tag in source.tags}
    for limit in sorted({limit for made in runs.values() if (limit := made.get("limit_topics"))}):
        yield f"Some runs are limited to the first {limit} topics: use these figures for development only."
    for size in sorted({size for made in runs.values() if (size := made.get("sample_topics"))}):
        tags = ", ".join(tag for tag, made in runs.items() if made.get("sample_topics") == size)
        yield f"{tags}: over a sample of {size:,} topics. Only the tables of differences compare them with other runs."


def _asked(dataset: Dataset) -> str | None:
    """Returns the provider of the model that a dataset's stage asked; None if it asked none."""
    model = dataset.manifest.parameters.get("model")
    return model["provider"] if isinstance(model, dict) else None


def write_page(shard: Shard, page: Report) -> None:
    """Writes a report in all its forms as files of a shard."""
    shard.file("report.html").write_text(to_html(page))
    shard.file("report.md").write_text(to_markdown(page))
    shard.file("report.json").write_bytes(to_json(page))
    for block in (block for section in page.sections for block in section.blocks):
        if isinstance(block, FigureBlock):
            shard.file(f"figures/{block.name}.svg").write_text(block.svg)
        else:
            shard.file(f"tables/{block.name}.csv").write_text(to_csv(block))


def _write_trec(shard: Shard, source: ReportSource) -> None:
    folder = shard.file("trec/qrels.txt").parent
    runs = {RUN + tag: source.datasets[f"run:{tag}"] for tag in source.tags}
    for path in find_exporter("trec").write(Edition("report", {"topics": source.datasets["topics"], **runs}), folder):
        if (name := str(path.relative_to(folder))) != "qrels.txt":
            shard.file(f"trec/{name}")
