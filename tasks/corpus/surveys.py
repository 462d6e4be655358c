"""Stage `surveys`: finds candidates by title and lets a selector decide which of them are literature surveys.

Scale: candidates are found bucket by bucket in worker processes. Only they (a few in ten thousand papers) are sorted,
if needed on disk. They are judged all at once by a model, else batch by batch in worker processes.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from schemas.llm import ModelName
from schemas.manifest import Counts
from schemas.tables.dropped_candidates import DROPPED_CANDIDATES
from schemas.tables.model_calls import MODEL_CALLS
from schemas.tables.surveys import SURVEYS, SurveyRow
from tasks.corpus.duckdb_session import iter_tables, limits_of, open_session
from tasks.corpus.survey_candidates import CandidateSettings, Found, find_candidates
from tasks.corpus.survey_selector import Candidate, ModelConnection, SurveySelector, connect_model, find_selector
from tasks.llm.asker import call_rows, require_model
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_table, write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Progress, Workspace

CALLS = "calls"

CANDIDATES = """
    CREATE TABLE candidates AS
    WITH found AS (
        SELECT *, unhex(sha256(title || chr(31) || coalesce(abstract, ''))[:32]) AS text_digest FROM named
    ), known AS (
        SELECT * EXCLUDE (corpus_id, title), corpus_id AS known_as
        FROM earlier WHERE outcome = 'ok' AND prompt_id IS NOT DISTINCT FROM $prompt
        QUALIFY row_number() OVER (PARTITION BY text_digest ORDER BY corpus_id) = 1
    )
    FROM found LEFT JOIN known USING (text_digest)
"""
NEW = "SELECT corpus_id, title, abstract, text_digest FROM candidates WHERE outcome IS NULL ORDER BY corpus_id"
VERDICTS = """
    FROM judged UNION ALL BY NAME
    SELECT * EXCLUDE (abstract, known_as) FROM candidates WHERE outcome IS NOT NULL
    ORDER BY corpus_id
"""
NOTES = "SELECT count(outcome) AS known, count(*) - count(outcome) AS judged FROM candidates"
KNOWN_CALLS = """
    SELECT candidates.corpus_id::VARCHAR AS subject, calls.* EXCLUDE (subject)
    FROM candidates JOIN calls ON calls.subject = known_as::VARCHAR
"""

REPORTED = 100
"""Candidates that a model judges between two progress reports."""

BATCH = 1024
"""Candidates judged in one shard."""


class SurveySettings(CandidateSettings):
    """How candidates are found, and which selector decides."""

    selector: str = Field(default="rules", description="Selector that decides whether a candidate is a survey.")
    model: ModelName | None = Field(default=None, description="Model to ask, for a selector that asks one.")


@stage("surveys", version=5, settings=SurveySettings, after="published_surveys")
def surveys(work: Workspace[SurveySettings]) -> None:
    """Writes one row per candidate, accepted or not, with the reason; with a model also the side table `calls`.

    Side table `dropped_candidates` has the papers whose titles pass the filter and which are out of scope or not in
    English. Inputs: `papers`; for the scope `references` also `citation_records`, and `full_texts` where there are any.

    A verdict of the previous dataset is reused, with its calls, if title, abstract, selector, model and prompt are the
    same (`counts.notes`: `judged`, `known`). A candidate without a usable verdict is not accepted and counts as failed.
    Reaching the budget cap ends the stage, because a corpus that is judged only in part would be useless; all replies
    so far are kept for the next attempt.

    Raises:
        UsageError: No selector has the name, it asks a model and none is named, or a model is named and it asks none.
        OverBudget: The cap leaves too little to judge every candidate.

    Source: section 3.1 of the ResearchArena paper.
    """
    settings = work.settings
    selector = find_selector(settings.selector)
    require_model(f"survey selector {settings.selector}", selector.prompt_id is not None, settings.model)
    found = find_candidates(work, CandidateSettings(**settings.model_dump(include=set(CandidateSettings.model_fields))))
    for shard in work.pending(["part-00000"]):
        with (
            shard,
            connect_model(work.llm, settings.model) as connection,
            open_session(limits_of(work), shard.name) as db,
        ):
            earlier = _find_reusable(work)
            _load_candidates(db, found, earlier, selector)
            _judge_new(work, db, selector, connection)
            verdicts = _counted(iter_tables(db.sql(VERDICTS)), shard.counts)
            write_table(shard.file("part-00000.parquet"), SURVEYS, verdicts)
            dropped = db.read_parquet([str(path) for path in found.dropped]).order("corpus_id")
            write_table(
                shard.file(f"{DROPPED_CANDIDATES.name}-00000.parquet"), DROPPED_CANDIDATES, iter_tables(dropped)
            )
            shard.counts.add(Counts(notes=dict(db.sql(NOTES).to_arrow_table().to_pylist()[0])))
            if connection:
                write_table(shard.file(f"{CALLS}-00000.parquet"), MODEL_CALLS, _all_calls(db, earlier, connection))


def _find_reusable(work: Workspace[SurveySettings]) -> Dataset | None:
    """Returns the newest dataset with verdicts of the same selector and model, or None when the stage is forced."""
    same = work.settings.model_dump(mode="json", include={"selector", "model"}).items()
    alike = (d for d in work.earlier if d.manifest.version == work.version and same <= d.manifest.parameters.items())
    return next((dataset for dataset in alike if dataset.whole), None) if work.takes_over or work.again else None


def _load_candidates(
    db: duckdb.DuckDBPyConnection, found: Found, earlier: Dataset | None, selector: SurveySelector
) -> None:
    """Creates the table `candidates`: each candidate with its verdict from the earlier dataset, or nulls."""
    db.read_parquet([str(path) for path in found.candidates]).create_view("named")
    (earlier.relation(db) if earlier else db.from_arrow(SURVEYS.empty())).create_view("earlier")
    db.execute(CANDIDATES, {"prompt": selector.prompt_id})


def _judge_new(
    work: Workspace[SurveySettings],
    db: duckdb.DuckDBPyConnection,
    selector: SurveySelector,
    connection: ModelConnection | None,
) -> None:
    """Creates the table `judged`: verdicts on new candidates.

    Without a model they are judged in shards, else all at once: between two batches calls would wait for the slowest.
    """
    db.from_arrow(SURVEYS.empty()).create("judged")
    if connection is None:
        for path in _judge_in_shards(work, db.sql(NEW), selector):
            db.from_arrow(read_table(path)).insert_into("judged")
        return
    connection.judged = _counting(work)
    if len(rows := db.sql(NEW).to_arrow_table()):
        db.from_arrow(_judge(rows, selector, connection)).insert_into("judged")


def _counting(work: Workspace[SurveySettings]) -> Callable[[], None]:
    """Returns a function that several threads call for each verdict; it reports progress now and then."""
    lock, judged = Lock(), count(1)

    def one_more() -> None:
        with lock:
            if (number := next(judged)) % REPORTED == 0:
                work.report(Progress(work.stage, 0, 1, f"{number:,} candidates judged"))

    return one_more


def _judge_in_shards(
    work: Workspace[SurveySettings], new: duckdb.DuckDBPyRelation, selector: SurveySelector
) -> list[Path]:
    """Judges new candidates wherever shards run; returns scratch files with rows of SURVEYS."""
    batches: dict[str, _Batch] = {}
    for rows in filter(len, iter_tables(new, BATCH)):
        digest = hashlib.sha256(b"".join(rows["text_digest"].to_pylist())).hexdigest()[:12]
        name = f"judged-{rows['corpus_id'][0]}-{digest}"
        path = work.scratch / "new" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        batches[name] = _Batch(path, selector.name)
    sizes = {name: batch.candidates.stat().st_size for name, batch in batches.items()}
    work.map_shards(_judge_batch, batches, sizes=sizes)
    return [work.scratch / "judged" / f"{name}.parquet" for name in batches]


class _Batch(NamedTuple):
    """A scratch file with new candidates, and the name of the selector that judges them without a model."""

    candidates: Path
    selector: str


def _judge_batch(shard: Shard, batch: _Batch) -> None:
    judged = _judge(read_table(batch.candidates), find_selector(batch.selector), None)
    pq.write_table(judged, shard.scratch(f"judged/{shard.name}.parquet"))


def _judge(rows: pa.Table, selector: SurveySelector, connection: ModelConnection | None) -> pa.Table:
    """Returns rows of SURVEYS for candidates, in their order."""
    candidates = [Candidate(**row) for row in rows.select(list(Candidate._fields)).to_pylist()]
    verdicts = selector.select(candidates, connection)
    return SURVEYS.of(
        SurveyRow(candidate.corpus_id, candidate.title, digest, selector=selector.name, **verdict._asdict())
        for candidate, digest, verdict in zip(candidates, rows["text_digest"].to_pylist(), verdicts, strict=True)
    )


def _counted(verdicts: Iterator[pa.Table], counts: Counts) -> Iterator[pa.Table]:
    """Yields verdicts unchanged, and counts them."""
    for rows in verdicts:
        accepted = rows["accepted"].to_pylist().count(True)
        failed = len(rows) - rows["outcome"].to_pylist().count("ok")
        counts.add(Counts(kept=accepted, failed=failed, dropped={"rejected": len(rows) - accepted - failed}))
        yield rows


def _all_calls(
    db: duckdb.DuckDBPyConnection, earlier: Dataset | None, connection: ModelConnection
) -> Iterator[pa.Table]:
    """Yields rows of MODEL_CALLS by candidate: the calls made now, and those behind the reused verdicts."""
    if earlier is None:
        return iter([call_rows(connection.askers)])
    earlier.relation(db, CALLS).create_view("calls")
    made = db.from_arrow(call_rows(connection.askers))
    return iter_tables(db.sql(KNOWN_CALLS).union(made).order("subject::BIGINT, place"))
