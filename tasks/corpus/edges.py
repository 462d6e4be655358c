"""Stage `edges`: who cites whom among the documents, laid out for looking up one paper's neighbours.

Scale: the citations are streamed once against the ids of the documents; DuckDB sorts the edges that are left, on disk
when they exceed the memory limit. The result takes 8 bytes per edge and 24 per document: 5 GB for 12 million documents
and 600 million edges. It is memory-mapped: a lookup reads the neighbours of one paper, and processes share the pages.
"""

from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from schemas.manifest import Counts
from schemas.settings import Settings
from tasks.corpus.duckdb_session import iter_tables, limits_of, open_session
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

IDS = "ids.npy"
"""File of `(n_docs,) int64`: ascending corpus_ids; a document's row is its place here."""

Direction = Literal["references", "citations"]

ENDS: dict[Direction, tuple[str, str]] = {"references": ("citing", "cited"), "citations": ("cited", "citing")}
"""By direction, the end that has neighbours, and the end that they are."""

NODES = """
    CREATE TEMP TABLE nodes AS
    SELECT corpus_id, (row_number() OVER (ORDER BY corpus_id) - 1)::INTEGER AS row FROM documents
"""
EDGES = """
    CREATE TEMP TABLE edges AS
    SELECT a.row AS citing, b.row AS cited, count(*)::INTEGER AS times
    FROM citations c
    JOIN nodes a ON a.corpus_id = c.citing_corpus_id
    JOIN nodes b ON b.corpus_id = c.cited_corpus_id
    GROUP BY ALL
"""
COUNTS = """
    SELECT
        (SELECT count(*) FROM citations) AS read,
        (SELECT count(*) FROM citations WHERE cited_corpus_id IS NULL) AS unmatched,
        count(*) AS kept,
        coalesce(sum(times), 0)::BIGINT AS between_documents
    FROM edges
"""


class EdgeSettings(Settings):
    """No settings: every edge of the release's citations between two documents counts."""


def offsets_file(direction: Direction) -> str:
    """Returns the name of the file of `(n_docs + 1,) int64`: where the neighbours of each row begin, and the end."""
    return f"{direction}-offsets.npy"


def rows_file(direction: Direction) -> str:
    """Returns the name of the file of `(n_edges,) int32`: rows of the neighbours, ascending within each row."""
    return f"{direction}-rows.npy"


@stage(
    "edges",
    version=1,
    settings=EdgeSettings,
    after="topics",
    inputs={"documents": "documents", "citation_records": "citation_records"},
)
def edges(work: Workspace[EdgeSettings]) -> None:
    """Writes the citation edges between documents as compressed sparse rows, by citing and by cited paper.

    Inputs: `documents`, `citation_records`. An edge that the release lists several times counts once. References
    without a match, and edges of papers that are no documents, are counted and left out.
    """
    for shard in work.pending(["edges"]):
        with shard, open_session(limits_of(work), shard.name) as db:
            for name, view in (("documents", "documents"), ("citation_records", "citations")):
                work.dataset(name).relation(db).create_view(view)
            db.execute(NODES)
            db.execute(EDGES)
            ids = db.sql("SELECT corpus_id FROM nodes ORDER BY row").fetchnumpy()["corpus_id"]
            _save(shard.file(IDS), np.asarray(ids, np.int64))
            shard.counts.add(_count(db))
            for direction in ENDS:
                _write_rows(shard, db, direction, len(ids))


def _count(db: duckdb.DuckDBPyConnection) -> Counts:
    found = db.sql(COUNTS).to_arrow_table().to_pylist()[0]
    dropped = {
        "unmatched": found["unmatched"],
        "not_documents": found["read"] - found["unmatched"] - found["between_documents"],
        "duplicate": found["between_documents"] - found["kept"],
    }
    return Counts(read=found["read"], kept=found["kept"], dropped=dropped)


def _write_rows(shard: Shard, db: duckdb.DuckDBPyConnection, direction: Direction, n_docs: int) -> None:
    """Writes the two files of a direction, a batch of sorted edges at a time."""
    mine, theirs = ENDS[direction]
    degrees = np.zeros(n_docs + 1, np.int64)
    path = shard.file(rows_file(direction))
    if shard.counts.kept:
        rows, start = open_memmap(path, "w+", np.int32, (shard.counts.kept,)), 0
        for table in iter_tables(db.sql(f"SELECT {mine}, {theirs} FROM edges ORDER BY ALL"), 1 << 20):
            rows[start : start + table.num_rows] = table[theirs].to_numpy()
            start += table.num_rows
            found, times = np.unique(table[mine].to_numpy(), return_counts=True)
            degrees[found + 1] += times
        del rows  # writes it
    else:  # an empty file cannot be mapped
        _save(path, np.empty(0, np.int32))
    _save(shard.file(offsets_file(direction)), np.cumsum(degrees))


def _save(path: Path, values: NDArray[Any]) -> None:
    with path.open("wb") as handle:
        np.save(handle, values)
