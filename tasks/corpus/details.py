"""Stage `details`: venue and authors of the documents, for the served desk.

`papers` has them in row groups of 65,536 papers, of which a desk that reads one document decodes a whole one. Scale:
works bucket by bucket with some thousand papers in memory.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from schemas.settings import Settings
from schemas.tables.documents import DETAILS
from tasks.corpus.documents import ROW_GROUP, ROWS
from tasks.store.parquet import ParquetReader, TableWriter
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class DetailSettings(Settings):
    """No settings: every document has a row."""


class _Bucket(NamedTuple):
    documents: Path
    papers: Path


@stage(
    "details",
    version=1,
    settings=DetailSettings,
    after="report",
    inputs={"documents": "documents", "papers": "papers"},
)
def details(work: Workspace[DetailSettings]) -> None:
    """Writes DETAILS, in as many buckets as `documents` and in row groups as small. Inputs: `documents`, `papers`."""
    files = zip(work.dataset("documents").files(), work.dataset("papers").files(), strict=True)
    buckets = {documents.stem: _Bucket(documents, papers) for documents, papers in files}
    work.map_shards(_select_bucket, buckets, {name: [*bucket] for name, bucket in buckets.items()})


def _select_bucket(shard: Shard, bucket: _Bucket) -> None:
    with ParquetReader(bucket.documents) as file:
        ids = file.read(columns=["corpus_id"])["corpus_id"].to_numpy()
    with (
        ParquetReader(bucket.papers) as papers,
        TableWriter(shard.file(f"{shard.name}.parquet"), DETAILS, row_group=ROW_GROUP, repeats=False) as writer,
    ):
        for batch in papers.iter_batches(ROWS, columns=DETAILS.arrow.names):
            rows = pa.Table.from_batches([batch])
            writer.write(rows.filter(np.isin(rows["corpus_id"].to_numpy(), ids)))
    shard.counts.read = shard.counts.kept = writer.rows
