"""Stage `surveys`: candidates by title, then the selector's verdict on each.

What belongs here: the stage, and which verdicts of an earlier dataset hold. What does not: selectors (`selector`).

Scale: titles and abstracts stream through DuckDB once; only candidates (a few in ten thousand papers) are sorted, which
spills, and they are judged and written batch by batch.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.model_calls import MODEL_CALLS
from schemas.tables.surveys import SURVEYS
from tasks.corpus.engine import budget_of, connect, tables
from tasks.corpus.selector import TITLE_PATTERNS, Asking, Candidate, SurveySelector, Word, find_selector, open_asking
from tasks.llm.asker import call_rows
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Progress, Workspace

CALLS = "calls"

CANDIDATES = """
    CREATE TABLE candidates AS
    WITH found AS (
        SELECT corpus_id, title, abstract, unhex(sha256(title || chr(31) || coalesce(abstract, ''))[:32]) AS text_digest
        FROM papers WHERE regexp_matches(title, $pattern)
    ), known AS (
        SELECT * EXCLUDE (corpus_id, title), corpus_id AS known_as
        FROM earlier WHERE outcome = 'ok' AND prompt_id IS NOT DISTINCT FROM $prompt
        QUALIFY row_number() OVER (PARTITION BY text_digest ORDER BY corpus_id) = 1
    )
    FROM found LEFT JOIN known USING (text_digest)
"""
KNOWN_CALLS = """
    SELECT candidates.corpus_id::VARCHAR AS subject, calls.* EXCLUDE (subject)
    FROM candidates JOIN calls ON calls.subject = known_as::VARCHAR
"""

TOGETHER = 512
"""Candidates that are judged between two reports of progress."""


class SurveySettings(Settings):
    """How candidates are found and who decides."""

    word: Word = Field(default="substring", description="How a title must contain 'survey' to be a candidate.")
    selector: str = Field(default="rules", description="Who decides whether a candidate is a survey.")
    model: ModelName | None = Field(default=None, description="Model that is asked, by a selector that asks one.")


@stage("surveys", version=3, settings=SurveySettings)
def surveys(work: Workspace[SurveySettings]) -> None:
    """One row per candidate, accepted or not, with the reason; of a model also side table `calls`.

    A candidate whose title and abstract the same selector judged in the last dataset, asking the same of the same
    model, keeps that verdict and its calls (`counts.notes`: `judged`, `known`). One without a usable verdict is not
    accepted, and counted as failed. A cap that is reached ends the stage: a corpus of which a part was never judged is
    none, and every reply so far is kept for the next attempt.

    Raises:
        UsageError: No selector has the name, or it asks a model and none is named, or the other way round.
        OverBudget: The cap leaves too little to judge every candidate.

    Source: section 3.1 of the ResearchArena paper.
    """
    settings = work.settings
    selector = find_selector(settings.selector)
    if (selector.prompt_id is None) != (settings.model is None):
        needs = "asks a model; name one" if selector.prompt_id else "asks no model; name none"
        raise UsageError(f"survey selector {settings.selector} {needs}")
    read = sum(file.rows or 0 for file in work.dataset("papers").manifest.files)
    for shard in work.pending(["part-00000"]):
        with shard, open_asking(work.llm, settings.model) as asking, connect(budget_of(work), shard.name) as db:
            earlier = _last_alike(work)
            _find_candidates(work, db, earlier, selector)
            judged = (_judge(rows, selector, asking, shard.counts) for rows in _pieces(work, db, asking))
            candidates = write_table(shard.file("part-00000.parquet"), SURVEYS, judged)
            shard.counts.add(Counts(read=read, dropped={"title": read - candidates}))
            if asking:
                write_table(shard.file(f"{CALLS}-00000.parquet"), MODEL_CALLS, _all_calls(db, earlier, asking))


def _last_alike(work: Workspace[SurveySettings]) -> Dataset | None:
    """The newest dataset whose verdicts the same selector gave, asking the same model; none for a forced stage."""
    same = work.settings.model_dump(mode="json", include={"selector", "model"}).items()
    alike = (d for d in work.earlier if d.manifest.version == work.version and same <= d.manifest.parameters.items())
    return next(alike, None) if work.takes_over else None


def _find_candidates(
    work: Workspace[SurveySettings], db: duckdb.DuckDBPyConnection, earlier: Dataset | None, selector: SurveySelector
) -> None:
    """Makes table `candidates`: each with its verdict in the earlier dataset, or nulls."""
    work.dataset("papers").relation(db).create_view("papers")
    (earlier.relation(db) if earlier else db.from_arrow(SURVEYS.empty())).create_view("earlier")
    pattern = TITLE_PATTERNS[work.settings.word]
    db.execute(CANDIDATES, {"pattern": pattern, "prompt": selector.prompt_id})


def _pieces(
    work: Workspace[SurveySettings], db: duckdb.DuckDBPyConnection, asking: Asking | None
) -> Iterator[pa.Table]:
    """The candidates in order, as many at a time as are judged together; all of them where a batch service judges."""
    found = db.sql("FROM candidates ORDER BY corpus_id")
    judged = 0
    for rows in [found.to_arrow_table()] if asking and asking.access.settings.batch else tables(found, TOGETHER):
        yield rows
        judged += len(rows)
        work.report(Progress(work.stage, 0, 1, f"{judged:,} candidates judged"))


def _judge(rows: pa.Table, selector: SurveySelector, asking: Asking | None, counts: Counts) -> pa.Table:
    """Rows of SURVEYS of candidates, in their order."""
    is_known = pc.call_function("is_valid", [rows["outcome"]])
    known = SURVEYS.conform(rows.filter(is_known).select(SURVEYS.arrow.names))
    new = rows.filter(pc.call_function("invert", [is_known]))
    candidates = [Candidate(**row) for row in new.select(list(Candidate._fields)).to_pylist()]
    digests = new["text_digest"].to_pylist()
    made = [
        {
            "corpus_id": candidate.corpus_id,
            "title": candidate.title,
            "text_digest": digest,
            "selector": selector.name,
            **verdict._asdict(),
        }
        for candidate, digest, verdict in zip(candidates, digests, selector.select(candidates, asking), strict=True)
    ]
    judged = pa.concat_tables([known, pa.Table.from_pylist(made, SURVEYS.arrow)]).sort_by("corpus_id")
    accepted = judged["accepted"].to_pylist().count(True)
    failed = len(judged) - judged["outcome"].to_pylist().count("ok")
    counts.add(
        Counts(
            kept=accepted,
            failed=failed,
            dropped={"rejected": len(judged) - accepted - failed},
            notes={"judged": len(made), "known": len(known)},
        )
    )
    return judged


def _all_calls(db: duckdb.DuckDBPyConnection, earlier: Dataset | None, asking: Asking) -> Iterator[pa.Table]:
    """Rows of MODEL_CALLS in the order of the candidates: those made, and those that known verdicts rest on."""
    if earlier is None:
        return iter([call_rows(asking.askers)])
    earlier.relation(db, CALLS).create_view("calls")
    made = db.from_arrow(call_rows(asking.askers))
    return tables(db.sql(KNOWN_CALLS).union(made).order("subject::BIGINT, place"))
