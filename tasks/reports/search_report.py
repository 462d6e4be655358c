"""The `search_report` stage: the page on judged search engines and its files."""

from collections.abc import Iterator

from schemas.llm import STAND_IN
from schemas.settings import EncoderSettings
from tasks.exports.search_trec import write_search_trec
from tasks.index.embeddings import embeddings
from tasks.reports.blocks import Report, counted
from tasks.reports.report import ReportSettings, write_page
from tasks.reports.sections import lineage, search
from tasks.reports.source import ReportSource
from tasks.search.judgments import judge
from tasks.search.results import search_results
from tasks.store.dataset import Dataset
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


@stage("search_report", version=5, settings=ReportSettings, after="agreement")
def search_report(work: Workspace[ReportSettings]) -> None:
    """Writes report.html, report.md, report.json, a CSV per table, an SVG per figure, TREC files per judge.

    Inputs: `queries`, `agreement`, `judgments:<tag>` with `search_scores:<tag>` for every judge, and `results:<tag>`
    for every engine.
    """
    source = ReportSource({name: work.dataset(name) for name in work.inputs})
    for shard in work.pending(["report"]):
        with shard:
            write_page(shard, compose(source, work.settings))
            for tag, judgments in _judgments(source).items():
                folder = shard.file(f"trec/{tag}/qrels.txt").parent
                for path in write_search_trec(judgments, folder):
                    if path.name != "qrels.txt":
                        shard.file(f"trec/{tag}/{path.relative_to(folder)}")
            shard.counts.kept = len(_judgments(source))


def compose(source: ReportSource, settings: ReportSettings) -> Report:
    """Returns the page's content."""
    queries = source.datasets["queries"].table(columns=["test_set"])["test_set"]
    judged = sum(dataset.manifest.counts.read for dataset in _judgments(source).values())
    subtitle = (
        f"Edition {settings.edition}: {len(queries):,} queries in {len(queries.unique())} test sets, "
        f"{counted(judged, 'judgment')} by {counted(len(_judgments(source)), 'judge')}."
    )
    content = (*search.sections(source), *lineage.sections(source))
    return Report(settings.title, subtitle, content, tuple(warnings(source)))


def _judgments(source: ReportSource) -> dict[str, Dataset]:
    return source.under("judgments")


def warnings(source: ReportSource) -> Iterator[str]:
    """Yields what makes figures of the page unfit for comparison."""
    for tag, dataset in _judgments(source).items():
        if dataset.manifest.settings(judge).model.provider == STAND_IN:
            yield (
                f"{tag}: the judge is the stand-in, a program that counts shared words. Its scores show that the "
                "pipeline works; they say nothing about the engines."
            )
        if lacking := dataset.manifest.counts.dropped.get("over_budget"):
            yield (
                f"{tag}: {counted(lacking, 'paper')} not judged, because the budget was used up. Raise the cap and "
                "judge again with --force judge; judgments that exist are not paid for twice."
            )
    usual = EncoderSettings().model
    for model in sorted(
        {d.manifest.settings(embeddings).encoder.model for d in source.of_stage("embeddings")} - {usual}
    ):
        yield f"Dense and hybrid engines use the encoder {model} instead of {usual}."
    limits = {d.manifest.settings(search_results).limit_queries for d in source.of_stage("search_results")}
    for limit in sorted(filter(None, limits)):
        yield f"Only the first {limit} queries of each test set were asked: use these figures for development only."
