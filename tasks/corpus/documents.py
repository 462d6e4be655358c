"""Stage `documents`: selects the papers that can be retrieved.

Scale: works bucket by bucket with a few thousand papers in memory; only with a limit it first reads the ids of all
papers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from schemas.manifest import Counts
from schemas.settings import CorpusRule, Settings
from schemas.tables.documents import DOCUMENTS
from tasks.corpus.duckdb_session import limits_of, open_session
from tasks.store.parquet import ParquetReader, TableWriter, count_rows
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

ROWS = 16 * 1024
"""Papers in memory at a time."""

ROW_GROUP = 256
"""Rows of a row group: whoever wants one document decodes so many."""


class Rule(NamedTuple):
    """The condition that makes a paper a document, and the drop reason of the others."""

    condition: pc.Expression
    dropped: str


RULES: dict[CorpusRule, Rule] = {
    "full_text": Rule(pc.field("has_full_text"), "no_full_text"),
    "abstract": Rule(pc.field("title").is_valid() & pc.field("abstract").is_valid(), "no_title_or_abstract"),
}
LIMITED_IDS = """
    WITH cited AS (FROM eligible SEMI JOIN cited_papers ON corpus_id = cited_id),
    others AS (FROM eligible ANTI JOIN cited_papers ON corpus_id = cited_id)
    FROM cited UNION ALL (
        FROM others ORDER BY md5(corpus_id::VARCHAR), corpus_id
        LIMIT greatest(0, $limit - (SELECT count(*) FROM cited))
    )
"""


class DocumentSettings(Settings):
    """Which papers are documents."""

    corpus: CorpusRule = Field(default="full_text", description="Papers with full text, or with title and abstract.")
    limit: int | None = Field(
        default=None, ge=1, description="Development only: all cited documents, and others by hash up to this many."
    )


class _Bucket(NamedTuple):
    papers: Path
    chosen: Path | None
    corpus: CorpusRule


@stage("documents", version=2, settings=DocumentSettings, after="references")
def documents(work: Workspace[DocumentSettings]) -> None:
    """Writes the corpus, in as many buckets as `papers`; surveys stay in it, because every search filters them out.

    With a limit, every document that an accepted survey cites is kept, so that topics lose nothing. The rest is filled
    up in ascending order of a hash of the id.

    Deviates: the paper's corpus has full texts only (section 3.1); `abstract` is for releases with too few full texts.
    """
    files = work.dataset("papers").files()
    chosen = _apply_limit(work) if work.settings.limit else None
    buckets = {path.stem: _Bucket(path, chosen, work.settings.corpus) for path in files}
    reads = {} if chosen else {path.stem: [path] for path in files}  # with a limit, a bucket depends on all papers
    work.map_shards(_select_bucket, buckets, reads)


def _apply_limit(work: Workspace[DocumentSettings]) -> Path:
    """Writes the ids of the documents that the limit keeps to a scratch file."""
    path = work.scratch / "chosen.npy"
    papers = (rows for file in work.dataset("papers").files() for rows in _eligible(file, work.settings.corpus))
    ids = (pa.record_batch({"corpus_id": rows["corpus_id"].combine_chunks()}) for rows in papers)
    with open_session(limits_of(work), "choice") as db:
        db.from_arrow(pa.RecordBatchReader.from_batches(pa.schema([("corpus_id", pa.int64())]), ids)).create("eligible")
        cited = work.dataset("references").relation(db).filter("used AND cited_id IS NOT NULL")
        cited.select("cited_id").distinct().create("cited_papers")
        np.save(path, db.sql(LIMITED_IDS, params={"limit": work.settings.limit}).fetchnumpy()["corpus_id"])
    return path


def _eligible(papers: Path, corpus: CorpusRule) -> Iterator[pa.Table]:
    """Yields the documents among a bucket's papers, before any limit."""
    columns = [*DOCUMENTS.arrow.names, "has_full_text"]
    with ParquetReader(papers) as file:
        for batch in file.iter_batches(ROWS, columns=columns):
            yield pa.Table.from_batches([batch]).filter(RULES[corpus].condition).select(DOCUMENTS.arrow.names)


def _select_bucket(shard: Shard, bucket: _Bucket) -> None:
    counts = shard.counts
    counts.read = count_rows(bucket.papers)
    rows = _eligible(bucket.papers, bucket.corpus)
    if bucket.chosen:
        counts.dropped["limit"] = 0
        rows = _within_limit(rows, np.load(bucket.chosen), counts)
    with TableWriter(shard.file(f"{shard.name}.parquet"), DOCUMENTS, row_group=ROW_GROUP, repeats=False) as writer:
        for table in rows:
            writer.write(table)
    counts.kept = writer.rows
    counts.dropped[RULES[bucket.corpus].dropped] = counts.read - counts.kept - counts.dropped.get("limit", 0)


def _within_limit(eligible: Iterator[pa.Table], chosen: np.ndarray, counts: Counts) -> Iterator[pa.Table]:
    for rows in eligible:
        kept = rows.filter(np.isin(rows["corpus_id"].to_numpy(), chosen))
        counts.dropped["limit"] += rows.num_rows - kept.num_rows
        yield kept
