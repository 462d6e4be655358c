"""Stage `references`: the references of accepted surveys, from their bibliographies and from the citations table.

Scale: bibliographies and citations are each streamed once against the ids of the accepted surveys (a hash table of some
ten thousand integers). Only the matching rows, about a hundred per survey, are grouped, joined and sorted.
"""

import duckdb
from pydantic import Field

from schemas.settings import LinkSource, Settings
from schemas.tables.bibliography import BIBLIOGRAPHY
from schemas.tables.references import REFERENCES
from tasks.corpus.duckdb_session import iter_tables, limits_of, open_session
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

ENTRIES = """
    CREATE TEMP TABLE entries AS
    SELECT b.corpus_id AS survey_id, b.matched_corpus_id AS cited_id, b.mentions
    FROM bibliography b SEMI JOIN accepted USING (corpus_id)
"""
EDGES = """
    CREATE TEMP TABLE edges AS
    SELECT c.citing_corpus_id AS survey_id, c.cited_corpus_id AS cited_id, c.is_influential
    FROM citations c SEMI JOIN accepted ON c.citing_corpus_id = accepted.corpus_id
"""
MERGED = """
    WITH by_bibliography AS (
        SELECT survey_id, cited_id, count(*) AS entries, sum(mentions) AS mentions
        FROM entries WHERE cited_id IS NOT NULL GROUP BY ALL
    ), by_citations AS (
        SELECT survey_id, cited_id, bool_or(is_influential) AS is_influential
        FROM edges WHERE cited_id IS NOT NULL GROUP BY ALL
    ), linked AS (
        SELECT
            *,
            b.entries IS NOT NULL AS in_bibliography,
            c.cited_id IS NOT NULL AS in_citations,
        FROM by_bibliography b FULL JOIN by_citations c USING (survey_id, cited_id)
    )
    SELECT
        survey_id, cited_id, CASE WHEN {bibliography} THEN coalesce(entries, 0) ELSE 0 END::INTEGER AS entries,
        mentions::INTEGER AS mentions, in_bibliography, in_citations, is_influential,
        CASE WHEN in_bibliography AND in_citations THEN 'both'
             WHEN in_bibliography THEN 'bibliography_only'
             ELSE 'citations_only' END AS linking,
        in_bibliography AND {bibliography} OR in_citations AND {citations} AS used
    FROM linked
    UNION ALL
    SELECT survey_id, NULL, 1, mentions, false, false, NULL, 'unmatched', true
    FROM entries WHERE cited_id IS NULL AND {bibliography}
    UNION ALL
    SELECT survey_id, NULL, 0, NULL, false, false, NULL, 'unmatched', true
    FROM edges WHERE cited_id IS NULL AND {citations}
        AND NOT ({bibliography} AND survey_id IN (SELECT survey_id FROM entries))
"""
SOURCES: dict[LinkSource, dict[str, bool]] = {
    "bibliography": {"bibliography": True, "citations": False},
    "citations": {"bibliography": False, "citations": True},
    "both": {"bibliography": True, "citations": True},
}
"""By source of links, whether the bibliography and the citations table count."""

NOTES = """
    SELECT
        (SELECT count(*) FROM accepted) AS surveys,
        count(DISTINCT survey_id) FILTER (used) AS surveys_with_references,
        (SELECT count(DISTINCT survey_id) FROM entries) AS surveys_with_bibliography,
        count(DISTINCT survey_id) FILTER (in_citations) AS surveys_with_citations,
        (SELECT count(*) FROM entries) AS bibliography_entries,
        count(*) FILTER (used) AS used,
        count(*) FILTER (linking = 'both') AS both,
        count(*) FILTER (linking = 'bibliography_only') AS bibliography_only,
        count(*) FILTER (linking = 'citations_only') AS citations_only,
        count(*) FILTER (linking = 'unmatched') AS unmatched
    FROM merged
"""


class ReferenceSettings(Settings):
    """What links surveys to the papers they cite."""

    source: LinkSource = Field(default="both", description="Whose links count as references.")


@stage("references", version=2, settings=ReferenceSettings, after="surveys")
def references(work: Workspace[ReferenceSettings]) -> None:
    """Writes one row per paper that a survey cites, and one per entry or edge that is matched to no paper.

    Links of the source that does not count are written too, with `used` false, so that the agreement of both sources
    can be stated. Whether a reference is influential is known from the citations table, whatever the source.

    Entries of one bibliography that are matched to the same paper become one row, with their number in `entries`. An
    edge of the citations table without a cited paper becomes a row unless the survey has a bibliography that counts;
    then it is already one of the bibliography's unmatched entries. If one pair has contradicting flags, "influential"
    wins.

    Source: section 3.2 of the ResearchArena paper (`bibliography`).
    """
    for shard in work.pending(["part-00000"]):
        with shard, open_session(limits_of(work), shard.name) as db:
            _open_inputs(work, db)
            db.execute(ENTRIES)
            db.execute(EDGES)
            merged = MERGED.format(**SOURCES[work.settings.source])
            db.execute(f"CREATE TEMP TABLE merged AS {merged}")
            rows = db.sql("FROM merged ORDER BY survey_id, cited_id NULLS LAST, entries, mentions")
            path = shard.file("part-00000.parquet")
            shard.counts.kept = write_table(path, REFERENCES, iter_tables(rows))
            shard.counts.read = shard.counts.kept
            shard.counts.notes = dict(db.sql(NOTES).to_arrow_table().to_pylist()[0])


def _open_inputs(work: Workspace[ReferenceSettings], db: duckdb.DuckDBPyConnection) -> None:
    work.dataset("surveys").relation(db).filter("accepted").select("corpus_id").create("accepted")
    work.dataset("citation_records").relation(db).create_view("citations")
    if "full_texts" in work.inputs:
        work.dataset("full_texts").relation(db, BIBLIOGRAPHY.name).create_view("bibliography")
    else:
        db.register("bibliography", BIBLIOGRAPHY.empty())
