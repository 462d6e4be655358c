"""Stage `topics`: makes accepted surveys into topics with qrels, and records why other references are dropped.

Scale: papers and documents are streamed against the ids of accepted surveys and of the papers they cite. Everything
else is small (some ten thousand topics, a million references).
"""

import duckdb
import pyarrow as pa
from pydantic import Field

from schemas.settings import Settings, YearOnlySurvey
from schemas.tables.dropped_references import DROPPED_REFERENCES
from schemas.tables.qrels import QRELS
from schemas.tables.topics import TOPICS
from tasks.corpus.dates import horizon_of
from tasks.corpus.duckdb_session import iter_tables, limits_of, open_session
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

SURVEYS = """
    SELECT p.corpus_id AS topic_id, p.title, p.date, p.date_precision, p.fields_of_study, p.reference_count
    FROM papers p SEMI JOIN accepted USING (corpus_id)
"""
JUDGED = """
    CREATE TEMP TABLE judged AS
    WITH cited AS (
        SELECT corpus_id, date FROM documents SEMI JOIN refs ON documents.corpus_id = refs.cited_id
    )
    SELECT
        r.survey_id AS topic_id, r.cited_id AS corpus_id, coalesce(r.is_influential, false) AS influential,
        CASE WHEN c.corpus_id IS NULL THEN 'not_in_corpus'
             WHEN r.cited_id = r.survey_id THEN 'self'
             WHEN a.corpus_id IS NOT NULL THEN 'survey'
             WHEN t.horizon IS NULL THEN 'topic_excluded'
             WHEN c.date IS NULL THEN 'no_date'
             WHEN c.date >= t.horizon THEN 'later' END AS reason
    FROM refs r
    JOIN horizons t ON t.topic_id = r.survey_id
    LEFT JOIN cited c ON c.corpus_id = r.cited_id
    LEFT JOIN accepted a ON a.corpus_id = r.cited_id
    WHERE r.cited_id IS NOT NULL
"""
TOPIC_ROWS = """
    WITH listed AS (
        SELECT survey_id AS topic_id, count(*) AS listed, sum(entries) AS entries, count(cited_id) AS linked
        FROM refs GROUP BY ALL
    ), kept AS (
        SELECT topic_id, count(*) FILTER (reason IS DISTINCT FROM 'not_in_corpus') AS accessible,
            count(*) FILTER (reason IS NULL) AS relevant,
            count(*) FILTER (reason IS NULL AND influential) AS influential
        FROM judged GROUP BY ALL
    ), counted AS (
        SELECT h.*, coalesce(listed, 0) AS listed, coalesce(linked, 0) AS linked, coalesce(accessible, 0) AS accessible,
            coalesce(relevant, 0) AS relevant, coalesce(influential, 0) AS influential,
            CASE WHEN entries > 0 THEN greatest(entries, linked)
                 WHEN listed > 0 THEN greatest(listed, h.reference_count)
                 ELSE 0 END AS references
        FROM horizons h LEFT JOIN listed USING (topic_id) LEFT JOIN kept USING (topic_id)
    )
    SELECT topic_id, title, horizon, horizon_precision, fields_of_study, "references"::INTEGER AS "references",
        linked::INTEGER AS linked, accessible::INTEGER AS accessible, relevant::INTEGER AS relevant,
        influential::INTEGER AS influential, accessible / nullif("references", 0) AS coverage,
        CASE WHEN listed = 0 THEN 'no_references'
             WHEN accessible = 0 THEN 'none_accessible'
             WHEN horizon IS NULL THEN 'no_date'
             WHEN relevant = 0 THEN 'none_left'
             ELSE 'kept' END AS outcome
    FROM counted ORDER BY topic_id
"""
QREL_ROWS = """
    SELECT topic_id, corpus_id, CASE WHEN influential THEN 2 ELSE 1 END::TINYINT AS relevance
    FROM judged WHERE reason IS NULL ORDER BY topic_id, corpus_id
"""
DROPPED_ROWS = """
    SELECT topic_id, corpus_id, reason FROM judged WHERE reason IS NOT NULL ORDER BY topic_id, corpus_id
"""


class TopicSettings(Settings):
    """How the horizon of a survey is chosen."""

    year_only_survey: YearOnlySurvey = Field(
        default="dec31", description="Horizon of a survey when only its year is known."
    )


@stage("topics", version=1, settings=TopicSettings, after="documents")
def topics(work: Workspace[TopicSettings]) -> None:
    """Writes accepted surveys with their outcome, qrels of the kept ones, and dropped references with the first reason.

    Only rows of `references` with `used` count. A reference is relevant when it is a document of the corpus, is neither
    the survey itself nor an accepted survey, and was published strictly before the horizon. The denominator of coverage
    is the number of entries in the survey's bibliography. Where there is none, or it does not count, it is the number
    of references that Semantic Scholar gives, if that is larger than the number of linked ones.

    Source: sections 3.2 and 5 of the ResearchArena paper.
    """
    for shard in work.pending(["part-00000"]):
        with shard, open_session(limits_of(work), shard.name) as db:
            _open_inputs(work, db)
            db.execute(JUDGED)
            write_table(shard.file("part-00000.parquet"), TOPICS, iter_tables(db.sql(TOPIC_ROWS)))
            write_table(shard.file(f"{QRELS.name}-00000.parquet"), QRELS, iter_tables(db.sql(QREL_ROWS)))
            dropped = shard.file(f"{DROPPED_REFERENCES.name}-00000.parquet")
            write_table(dropped, DROPPED_REFERENCES, iter_tables(db.sql(DROPPED_ROWS)))
            _count(db, shard)


def _open_inputs(work: Workspace[TopicSettings], db: duckdb.DuckDBPyConnection) -> None:
    for name in ("papers", "documents"):
        work.dataset(name).relation(db).create_view(name)
    work.dataset("references").relation(db).filter("used").create_view("refs")
    work.dataset("surveys").relation(db).filter("accepted").select("corpus_id").create("accepted")
    surveys = db.sql(SURVEYS).to_arrow_table()
    precisions = surveys["date_precision"].to_pylist()
    horizons = [
        horizon_of(published, precision, work.settings.year_only_survey)
        for published, precision in zip(surveys["date"].to_pylist(), precisions, strict=True)
    ]
    surveys = surveys.rename_columns({"date_precision": "horizon_precision"})
    db.register("horizons", surveys.append_column("horizon", pa.array(horizons, pa.date32())))


def _count(db: duckdb.DuckDBPyConnection, shard: Shard) -> None:
    """Counts topics by outcome, references of all topics by drop reason, and surveys by the precision of their date."""
    outcomes = dict(db.sql(f"SELECT outcome, count(*) FROM ({TOPIC_ROWS}) GROUP BY ALL").fetchall())
    reasons = db.sql("SELECT coalesce(reason, 'relevant'), count(*) FROM judged GROUP BY ALL").fetchall()
    precisions = db.sql("SELECT horizon_precision, count(*) FROM horizons GROUP BY ALL").fetchall()
    shard.counts.read = sum(outcomes.values())
    shard.counts.kept = outcomes.pop("kept", 0)
    shard.counts.dropped = outcomes
    shard.counts.notes = {f"references_{reason}": number for reason, number in reasons}
    shard.counts.notes |= {f"survey_date_{precision}": number for precision, number in precisions}
