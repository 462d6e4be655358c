"""Stage `ann`: builds an approximate nearest neighbour index and measures its recall."""

import json
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.index.candidates import BLOCK
from tasks.index.dense import IDS, INDEX, DenseIndex
from tasks.index.encoder import unit_rows
from tasks.index.faiss_index import FaissIndex, load_faiss
from tasks.index.vectors import StoredVectors, read_ids
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

QUERIES = 200
"""Number of documents used as queries to measure recall."""

DEPTH = 100
"""Rank at which recall is measured."""

SHARES = (1.0, 0.1, 0.02)
"""Shares of the documents that filters allow when recall is measured."""

TRAINING = 200_000
"""Maximum number of vectors with which an index is trained."""

RECALL = "recall.json"


class AnnSettings(Settings):
    """Kind of index: `ivf` searches an eighth of its cells, `hnsw` a graph, `sq8` stores one byte per component."""

    kind: Literal["ivf", "hnsw", "sq8"]


@stage("ann", version=3, settings=AnnSettings, after="embeddings")
def ann(work: Workspace[AnnSettings]) -> None:
    """Builds an approximate index over embeddings and records its recall@100 against exact search.

    Input: `embeddings`. Output: `faiss.index`, `ids.npy` (corpus_id by row), and `recall.json`: recall among all
    documents, and under random filters that allow a tenth and a fiftieth of them.

    Deviates:
        The paper searches exactly. Report the scores of a run over this index together with the recall recorded here.
        The graph of `hnsw` depends on the order of insertion, so it is built by one thread.
    """
    embeddings = work.dataset("embeddings")
    for shard in work.pending(["index"]):
        with shard:
            vectors, ids = StoredVectors.open(embeddings), read_ids(embeddings)
            if not len(ids):
                raise BadInput(f"embeddings {embeddings.ref.key}: no vectors to index")
            faiss = load_faiss()
            index = _empty_index(faiss, work.settings.kind, vectors.size, vectors.dimensions)
            index.train(_sample(vectors, TRAINING))
            _add(faiss, index, vectors, one_thread=work.settings.kind == "hnsw")
            faiss.write_index(index, str(shard.file(INDEX)))
            with shard.file(IDS).open("wb") as handle:
                np.save(handle, ids)
            opened = FaissIndex(index)
            found = measure_recall(DenseIndex(opened, ids, opened), DenseIndex(vectors, ids), _sample(vectors, QUERIES))
            record = {"kind": work.settings.kind, "queries": min(QUERIES, len(ids)), "depth": DEPTH}
            record |= {"recall": found[1.0], "filtered": {f"{share:g}": found[share] for share in SHARES[1:]}}
            shard.file(RECALL).write_text(json.dumps(record, indent=1))
            shard.counts.read = shard.counts.kept = len(ids)
            shard.counts.notes = {f"recall_at_{DEPTH}": found[1.0]}


def _add(faiss: Any, index: Any, vectors: StoredVectors, one_thread: bool) -> None:
    """Adds all vectors, with a single thread where the index depends on the order of insertion."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if one_thread else threads)
    try:
        for _, block in vectors.blocks(BLOCK):
            index.add(unit_rows(block))
    finally:
        faiss.omp_set_num_threads(threads)


def measure_recall(ann: DenseIndex, exact: DenseIndex, queries: NDArray[np.float32]) -> dict[float, float]:
    """Returns by share of allowed documents the mean share of the exact top 100 among the approximate index's first.

    Args:
        ann: An approximate index.
        exact: Exact search over the same rows.
        queries: `(m, dim) float32`.
    """
    order = np.random.default_rng(0).permutation(exact.size)
    found: dict[float, float] = {}
    for share in SHARES:
        mask = order < max(1, round(share * exact.size))
        kept = [None if share == 1 else mask] * len(queries)
        pairs = zip(ann.search_many(queries, DEPTH, kept), exact.search_many(queries, DEPTH, kept), strict=True)
        found[share] = float(np.mean([len(np.intersect1d(ours.ids, best.ids)) / len(best.ids) for ours, best in pairs]))
    return found


def _sample(vectors: StoredVectors, size: int) -> NDArray[np.float32]:
    """Returns at most `size` evenly spaced vectors, `(n, dim) float32`."""
    return vectors.take(np.unique(np.linspace(0, vectors.size - 1, min(size, vectors.size)).astype(np.int64)))


def _empty_index(faiss: Any, kind: str, rows: int, dimensions: int) -> Any:
    """Returns an empty index of a kind, with parameters that depend on the number of rows."""
    metric = faiss.METRIC_INNER_PRODUCT
    if kind == "sq8":
        return faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_8bit, metric)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimensions, 32, metric)
        index.hnsw.efConstruction, index.hnsw.efSearch = 200, 384
        return index
    cells = max(1, min(int(4 * rows**0.5), rows // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, metric)
    index.nprobe = max(16, cells // 8)
    return index
