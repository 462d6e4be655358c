"""Stage `ann`: builds an approximate nearest neighbour index and measures its recall."""

import json
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.index.dense import IDS, INDEX, DenseIndex, add_embeddings, embedding_batches, load_faiss
from tasks.store.dataset import Dataset
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

QUERIES = 200
"""Number of documents used as queries to measure recall."""

DEPTH = 100
"""Rank at which recall is measured."""

TRAINING = 200_000
"""Maximum number of vectors with which an index is trained."""

RECALL = "recall.json"


class AnnSettings(Settings):
    """Kind of index: `ivf` searches a sixteenth of its cells, `hnsw` a graph, `sq8` stores one byte per component."""

    kind: Literal["ivf", "hnsw", "sq8"]


@stage("ann", version=1, settings=AnnSettings, after="embeddings")
def ann(work: Workspace[AnnSettings]) -> None:
    """Builds an approximate index over embeddings and records its recall@100 against exact search.

    Input: `embeddings`. Output: `faiss.index`, `ids.npy` (corpus_id by row), `recall.json`.

    Deviates:
        The paper searches exactly. Report the scores of a run over this index together with the recall recorded here.
        The graph of `hnsw` depends on the order of insertion, so it is built by one thread.
    """
    embeddings = work.dataset("embeddings")
    for shard in work.pending(["index"]):
        with shard:
            faiss = load_faiss()
            index = _empty_index(faiss, work.settings.kind, *_shape(embeddings))
            index.train(_sample(embeddings, TRAINING))
            ids = _add(faiss, index, embeddings, one_thread=work.settings.kind == "hnsw")
            faiss.write_index(index, str(shard.file(INDEX)))
            with shard.file(IDS).open("wb") as handle:
                np.save(handle, ids)
            recall = measure_recall(DenseIndex(index, ids), embeddings)
            record = {"kind": work.settings.kind, "queries": min(QUERIES, len(ids)), "depth": DEPTH, "recall": recall}
            shard.file(RECALL).write_text(json.dumps(record, indent=1))
            shard.counts.read = shard.counts.kept = len(ids)
            shard.counts.notes = {f"recall_at_{DEPTH}": recall}


def _add(faiss: Any, index: Any, embeddings: Dataset, one_thread: bool) -> NDArray[np.int64]:
    """Adds all vectors, with a single thread where the index depends on the order of insertion."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if one_thread else threads)
    try:
        return add_embeddings(index, embeddings)
    finally:
        faiss.omp_set_num_threads(threads)


def measure_recall(index: DenseIndex, embeddings: Dataset) -> float:
    """Returns the mean share of the 100 exactly nearest documents that the index returns among its first 100.

    Queries are evenly spaced documents. Each batch of embeddings is compared with all of them, so memory does not grow
    with the corpus.
    """
    queries = _sample(embeddings, QUERIES)
    ids = np.empty((len(queries), 0), np.int64)
    scores = np.empty((len(queries), 0), np.float32)
    for batch, vectors in embedding_batches(embeddings):
        ids = np.hstack([ids, np.broadcast_to(batch, (len(queries), len(batch)))])
        scores = np.hstack([scores, queries @ vectors.T])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
        ids, scores = np.take_along_axis(ids, best, 1), np.take_along_axis(scores, best, 1)
    found = [
        len(np.intersect1d(index.search(query, DEPTH).ids, exact)) for query, exact in zip(queries, ids, strict=True)
    ]
    return float(np.sum(found) / ids.size)


def _shape(embeddings: Dataset) -> tuple[int, int]:
    """Returns the number of vectors and their dimensions.

    Raises:
        BadInput: The dataset has no vectors.
    """
    rows = sum(entry.rows or 0 for entry in embeddings.manifest.files)
    if not rows:
        raise BadInput(f"embeddings {embeddings.ref.key}: no vectors to index")
    return rows, pq.read_schema(embeddings.files()[0]).field("vector").type.list_size


def _sample(embeddings: Dataset, size: int) -> NDArray[np.float32]:
    """Returns at most `size` evenly spaced vectors, `(n, dim) float32`."""
    rows, _ = _shape(embeddings)
    wanted = np.unique(np.linspace(0, rows - 1, min(size, rows)).astype(np.int64))
    parts: list[NDArray[np.float32]] = []
    start = 0
    for batch, vectors in embedding_batches(embeddings):
        parts.append(vectors[wanted[(wanted >= start) & (wanted < start + len(batch))] - start])
        start += len(batch)
    return np.concatenate(parts)


def _empty_index(faiss: Any, kind: str, rows: int, dimensions: int) -> Any:
    """Returns an empty index of a kind, with parameters that depend on the number of rows."""
    metric = faiss.METRIC_INNER_PRODUCT
    if kind == "sq8":
        return faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_8bit, metric)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimensions, 32, metric)
        index.hnsw.efConstruction, index.hnsw.efSearch = 200, 256
        return index
    cells = max(1, min(int(4 * rows**0.5), rows // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, metric)
    index.nprobe = max(16, cells // 16)
    return index
