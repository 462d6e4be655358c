"""Stage `surveys`: candidates by title, then the selector's verdict on each.

What belongs here: the stage. What does not: selectors (`selector`, `selectors`).

Scale: titles and abstracts stream through DuckDB once; only candidates (a few in ten thousand papers) are sorted, which
spills, and they are judged and written batch by batch.
"""

from collections.abc import Iterator

import pyarrow as pa
from pydantic import Field

from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.surveys import SURVEYS
from tasks.corpus.engine import budget_of, connect, tables
from tasks.corpus.selector import TITLE_PATTERNS, Candidate, SurveySelector, Word, find_selector
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

CANDIDATES = """
    SELECT corpus_id, title, abstract FROM papers WHERE regexp_matches(title, $pattern) ORDER BY corpus_id
"""


class SurveySettings(Settings):
    """How candidates are found and who decides."""

    word: Word = Field(default="substring", description="How a title must contain 'survey' to be a candidate.")
    selector: str = Field(default="rules", description="Who decides whether a candidate is a survey.")


@stage("surveys", version=1, settings=SurveySettings)
def surveys(work: Workspace[SurveySettings]) -> None:
    """One row per candidate, accepted or not, with the reason.

    Raises:
        UsageError: No selector has the name.

    Source: spec e.2, steps 1 and 2; section 3.1 of the ResearchArena paper.
    """
    selector = find_selector(work.settings.selector)
    read = sum(file.rows or 0 for file in work.dataset("papers").manifest.files)
    for shard in work.pending(["part-00000"]):
        with shard, connect(budget_of(work), shard.name) as db:
            work.dataset("papers").relation(db).create_view("papers")
            found = tables(db.sql(CANDIDATES, params={"pattern": TITLE_PATTERNS[work.settings.word]}))
            judged = _judged(found, selector, shard.counts)
            candidates = write_table(shard.file("part-00000.parquet"), SURVEYS, judged)
            shard.counts.add(Counts(read=read, dropped={"title": read - candidates}))


def _judged(found: Iterator[pa.Table], selector: SurveySelector, counts: Counts) -> Iterator[pa.Table]:
    for rows in found:
        candidates = [Candidate(**row) for row in rows.to_pylist()]
        verdicts = selector.select(candidates)
        accepted = sum(verdict.accepted for verdict in verdicts)
        counts.add(Counts(kept=accepted, dropped={"rejected": len(verdicts) - accepted}))
        judged = [
            {"corpus_id": candidate.corpus_id, "title": candidate.title, "selector": selector.name, **verdict._asdict()}
            for candidate, verdict in zip(candidates, verdicts, strict=True)
        ]
        yield pa.Table.from_pylist(judged, schema=SURVEYS.arrow)
