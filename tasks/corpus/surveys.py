"""Stage `surveys`: candidates by title, then the selector's verdict on each.

What belongs here: the stage. What does not: selectors (`selector`, `selectors`).

Scale: titles and abstracts stream through DuckDB once; only candidates (a few in ten thousand papers) are sorted, which
spills, and they are judged and written batch by batch.
"""

from collections.abc import Callable, Iterator
from itertools import islice

import pyarrow as pa
from pydantic import Field

from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.surveys import SURVEYS
from tasks.corpus.engine import budget_of, connect, tables
from tasks.corpus.selector import TITLE_PATTERNS, Asking, Candidate, SurveySelector, Word, find_selector, open_asking
from tasks.llm.asker import write_calls
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Progress, Workspace

CANDIDATES = """
    SELECT corpus_id, title, abstract FROM papers WHERE regexp_matches(title, $pattern) ORDER BY corpus_id
"""

TOGETHER = 512
"""Candidates that are judged between two reports of progress."""


class SurveySettings(Settings):
    """How candidates are found and who decides."""

    word: Word = Field(default="substring", description="How a title must contain 'survey' to be a candidate.")
    selector: str = Field(default="rules", description="Who decides whether a candidate is a survey.")
    model: ModelName | None = Field(default=None, description="Model that is asked, by a selector that asks one.")


@stage("surveys", version=2, settings=SurveySettings)
def surveys(work: Workspace[SurveySettings]) -> None:
    """One row per candidate, accepted or not, with the reason; of a model also side table `calls`.

    A candidate without a usable verdict is not accepted, and counted as failed. A cap that is reached ends the stage: a
    corpus of which a part was never judged is none, and every reply so far is kept for the next attempt.

    Raises:
        UsageError: No selector has the name, or it asks a model and none is named, or the other way round.
        OverBudget: The cap leaves too little to judge every candidate.

    Source: section 3.1 of the ResearchArena paper.
    """
    settings = work.settings
    selector = find_selector(settings.selector)
    if selector.asks != (settings.model is not None):
        needs = "asks a model; name one" if selector.asks else "asks no model; name none"
        raise UsageError(f"survey selector {settings.selector} {needs}")
    read = sum(file.rows or 0 for file in work.dataset("papers").manifest.files)
    for shard in work.pending(["part-00000"]):
        with shard, open_asking(work.llm, settings.model) as asking, connect(budget_of(work), shard.name) as db:
            work.dataset("papers").relation(db).create_view("papers")
            found = tables(db.sql(CANDIDATES, params={"pattern": TITLE_PATTERNS[settings.word]}))
            judged = (_judge(piece, selector, asking, shard.counts) for piece in _pieces(found, asking, work.report))
            candidates = write_table(shard.file("part-00000.parquet"), SURVEYS, judged)
            shard.counts.add(Counts(read=read, dropped={"title": read - candidates}))
            if asking:
                write_calls(shard.file("calls-00000.parquet"), asking.askers)


def _pieces(
    found: Iterator[pa.Table], asking: Asking | None, report: Callable[[Progress], None]
) -> Iterator[list[Candidate]]:
    """The candidates in order, as many at a time as are judged together; all of them where a batch service judges."""
    candidates = (Candidate(**row) for rows in found for row in rows.to_pylist())
    size = None if asking and asking.access.settings.batch else TOGETHER
    judged = 0
    while piece := list(islice(candidates, size)):
        yield piece
        judged += len(piece)
        report(Progress("surveys", 0, 1, f"{judged:,} candidates judged"))


def _judge(candidates: list[Candidate], selector: SurveySelector, asking: Asking | None, counts: Counts) -> pa.Table:
    """Rows of SURVEYS."""
    verdicts = selector.select(candidates, asking)
    accepted = sum(verdict.accepted for verdict in verdicts)
    failed = sum(verdict.outcome != "ok" for verdict in verdicts)
    counts.add(Counts(kept=accepted, failed=failed, dropped={"rejected": len(verdicts) - accepted - failed}))
    judged = [
        {"corpus_id": candidate.corpus_id, "title": candidate.title, "selector": selector.name, **verdict._asdict()}
        for candidate, verdict in zip(candidates, verdicts, strict=True)
    ]
    return pa.Table.from_pylist(judged, schema=SURVEYS.arrow)
