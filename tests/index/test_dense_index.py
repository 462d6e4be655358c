"""Exact dense search equals brute force in numpy, ties included; approximate indexes record their recall."""

import json
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput, MissingDependency
from tasks.index.ann import AnnSettings, ann
from tasks.index.dense import NARROW, DenseIndex
from tasks.index.encoder import unit_rows
from tasks.index.faiss_index import load_faiss, share_out
from tasks.index.ranked import Ranked, first_in_order
from tasks.index.vectors import Block, StoredVectors
from tasks.store.dataset import Dataset
from tasks.store.store import Request
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_embeddings

Vectors = dict[int, np.ndarray]


def clustered(number: int = 700, dimensions: int = 12, distinct: int = 150) -> Vectors:
    """Vectors around a few centres; many are repeated, so that scores tie."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((5, dimensions))
    pool = centres[rng.integers(0, 5, distinct)] + 0.3 * rng.standard_normal((distinct, dimensions))
    return {int(i): pool[rng.integers(distinct)] for i in rng.choice(50_000, number, replace=False)}


def brute_force(dataset: Dataset, query: np.ndarray) -> Ranked:
    """Every document by numpy alone: float64 products of unit vectors, rounded to float32, ties by id."""
    table = dataset.table()
    ids = table["corpus_id"].to_numpy()
    vectors = np.array(table["vector"].to_pylist(), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = query / np.linalg.norm(query[None], axis=1)
    scores = (vectors.astype(np.float64) @ unit.astype(np.float64)).astype(np.float32)
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))
    return Ranked(ids[order], scores[order])


@pytest.mark.parametrize("filtered", [False, True])
def test_exact_search_equals_brute_force(corpus: Corpus, filtered: bool) -> None:
    dataset = corpus.store.open(give_embeddings(corpus, clustered()))
    index = DenseIndex.open(dataset)
    rng = np.random.default_rng(4)
    for query in rng.standard_normal((20, 12)).astype(np.float32):
        kept = rng.random(index.size) < rng.random() if filtered else np.ones(index.size, bool)
        expected = brute_force(dataset, query)
        ids = expected.ids[np.isin(expected.ids, index.ids[kept])]
        scores = expected.scores[np.isin(expected.ids, index.ids[kept])]
        assert len(set(expected.scores.tolist())) < index.size, "the test needs ties"
        for n in (1, 10, 100, 700, 2000):
            found = index.search(query, n, kept if filtered else None)
            np.testing.assert_array_equal(found.ids, ids[:n])
            np.testing.assert_array_equal(found.scores, scores[:n])


def test_queries_searched_together_find_what_each_finds_alone(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.index.candidates.BLOCK", 300)
    monkeypatch.setattr("tasks.index.candidates.SMALL_BLOCK", 128)
    monkeypatch.setattr("tasks.index.dense.TOGETHER", 20)
    index = DenseIndex.open(corpus.store.open(give_embeddings(corpus, clustered(2500))))
    rng = np.random.default_rng(8)
    queries = rng.standard_normal((24, 12)).astype(np.float32)
    shares = [0.0, 0.001, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0] * 3
    kept = [rng.random(index.size) < share for share in shares]
    for n in (1, 10, 100, 1000):
        for filters in (kept, None, [None, *kept[1:]]):
            together = index.search_many(queries, n, filters)
            for place, query in enumerate(queries):
                alone = index.search(query, n, filters[place] if filters else None)
                np.testing.assert_array_equal(together[place].ids, alone.ids)
                np.testing.assert_array_equal(together[place].scores, alone.scores)
    with pytest.raises(BadInput, match="12 components"):
        index.search_many(np.ones((2, 5), np.float32), 1)


def test_mapped_vectors_give_what_vectors_in_parquet_give(corpus: Corpus) -> None:
    vectors = clustered()
    mapped, read = (
        DenseIndex.open(corpus.store.open(give_embeddings(corpus, vectors, buckets=5, mapped=mapped)))
        for mapped in (True, False)
    )
    stored = mapped._vectors
    assert isinstance(stored, StoredVectors)
    assert all(isinstance(part, np.memmap) for part in stored._parts)
    queries = np.random.default_rng(1).standard_normal((9, 12)).astype(np.float32)
    for ours, theirs in zip(mapped.search_many(queries, 50), read.search_many(queries, 50), strict=True):
        np.testing.assert_array_equal(ours.ids, theirs.ids)
        np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_decoding_without_torch_changes_nothing(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    index = DenseIndex.open(corpus.store.open(give_embeddings(corpus, clustered())))
    query = np.ones(12, np.float32)
    expected = index.search(query, 30)
    monkeypatch.setattr("tasks.index.vectors._torch", lambda: None)
    np.testing.assert_array_equal(index.search(query, 30).ids, expected.ids)


def test_a_narrow_filter_decodes_the_allowed_vectors_alone(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    index = DenseIndex.open(corpus.store.open(give_embeddings(corpus, clustered())))
    kept = np.zeros(index.size, bool)
    kept[[3, 400, 650]] = True
    decoded: list[int] = []
    blocks = StoredVectors.blocks

    def watch(self: StoredVectors, size: int, chosen: np.ndarray | None = None) -> Iterator[Block]:
        for block in blocks(self, size, chosen):
            decoded.extend(block.rows.tolist())
            yield block

    monkeypatch.setattr(StoredVectors, "blocks", watch)
    found = index.search(np.ones(12, np.float32), 2, kept)
    assert decoded == [3, 400, 650]
    assert len(found.ids) == 2
    assert np.isin(found.ids, index.ids[kept]).all()


def test_results_with_gpus_are_the_same(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact indexes on the CPU that give only a short list without filter stand in for those of two GPUs."""
    monkeypatch.setattr("tasks.index.dense.GPU_DEPTH", 60)
    monkeypatch.setattr("tasks.index.faiss_index.BLOCK", 100)
    faiss = load_faiss()
    plain = DenseIndex.open(corpus.store.open(give_embeddings(corpus, clustered())))
    shards = share_out(faiss, plain._vectors, [faiss.IndexFlatIP(12) for _ in range(2)])
    assert [shards.at(part).ntotal for part in range(2)] == [350, 350]
    twin = DenseIndex(plain._vectors, plain.ids, gpu=shards)
    rng = np.random.default_rng(5)
    decided = [0, 0]
    for share in (1.0, 0.5, 0.02):
        kept = [rng.random(plain.size) < share for _ in range(3)]
        queries = rng.standard_normal((3, 12)).astype(np.float32)
        for n in (1, 5, 20, 60, 200):
            for found in twin._search_gpu(unit_rows(queries), n, kept):
                decided[found is not None] += 1
            for ours, theirs in zip(
                twin.search_many(queries, n, kept), plain.search_many(queries, n, kept), strict=True
            ):
                np.testing.assert_array_equal(ours.ids, theirs.ids)
                np.testing.assert_array_equal(ours.scores, theirs.scores)
    assert min(decided) > 0, "some results come from the GPUs, and some must not"


def test_vectors_are_returned_in_the_order_of_the_ids(corpus: Corpus) -> None:
    vectors = clustered(30)
    index = DenseIndex.open(corpus.store.open(give_embeddings(corpus, vectors)))
    asked = [*reversed(vectors)][:7] * 2
    expected = np.stack([vectors[i] / np.linalg.norm(vectors[i]) for i in asked])
    np.testing.assert_allclose(index.vectors(asked), expected, atol=1e-3)
    with pytest.raises(BadInput, match="document 50001"):
        index.vectors([asked[0], 50_001])
    with pytest.raises(BadInput, match="12 components"):
        index.search(np.ones(5, np.float32), 1)
    with pytest.raises(BadInput, match="no direction"):
        index.search(np.zeros(12, np.float32), 1)
    assert not len(index.search(np.ones(12, np.float32), 5, np.zeros(30, bool)).ids)


@pytest.mark.parametrize(("kind", "least"), [("ivf", 0.9), ("hnsw", 0.95), ("sq8", 0.9)])
def test_an_approximate_index_records_its_recall(corpus: Corpus, kind: str, least: float) -> None:
    vectors = clustered(1500, distinct=1500)
    embeddings = give_embeddings(corpus, vectors)
    exact = DenseIndex.open(corpus.store.open(embeddings))
    dataset = corpus.build(ann, AnnSettings.model_validate({"kind": kind}), embeddings=embeddings)
    record = json.loads(dataset.path("recall.json").read_text())
    assert record["kind"] == kind
    assert least < record["recall"] <= 1
    assert dataset.manifest.counts.notes["recall_at_100"] == record["recall"]
    assert record["filtered"].keys() == {"0.1", "0.02"}
    assert kind == "sq8" or min(record["filtered"].values()) == 1.0, "so few documents are compared exactly"
    index = DenseIndex.open_ann(dataset)
    rng = np.random.default_rng(6)
    queries = [vectors[i] for i in rng.choice([*vectors], 40)]
    shares = [len(set(index.search(query, 100).ids) & set(exact.search(query, 100).ids)) / 100 for query in queries]
    assert abs(np.mean(shares) - record["recall"]) < 0.05
    kept = rng.random(index.size) < 0.5
    assert kept[np.isin(index.ids, index.search(queries[0], 50, kept).ids)].all()
    np.testing.assert_allclose(index.vectors(exact.ids[:9]), exact.vectors(exact.ids[:9]), atol=0.02)
    request = Request(ann, AnnSettings.model_validate({"kind": kind}), {"embeddings": embeddings})
    assert corpus.store.build(request, force=True).ref.digest == dataset.ref.digest


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_an_approximate_index_keeps_its_recall_under_a_filter(corpus: Corpus, kind: str) -> None:
    rng = np.random.default_rng(3)
    vectors = dict(enumerate(rng.standard_normal((4000, 12)).astype(np.float32)))
    embeddings = give_embeddings(corpus, vectors)
    exact = DenseIndex.open(corpus.store.open(embeddings))
    index = DenseIndex.open_ann(corpus.build(ann, AnnSettings.model_validate({"kind": kind}), embeddings=embeddings))
    assert index._ann is not None
    if kind == "ivf":
        index._ann._index.nprobe = 1  # hardly looks anywhere by itself
    for share in (1.0, 0.3, 0.1, 0.02):
        kept = np.zeros(index.size, bool)
        kept[rng.permutation(index.size)[: int(share * index.size)]] = True
        by_id = dict(zip(index.ids.tolist(), kept, strict=True))
        same = np.array([by_id[i] for i in exact.ids.tolist()])
        queries = rng.standard_normal((20, 12)).astype(np.float32)
        found = [index.search(query, 100, kept) for query in queries]
        assert [len(ranked.ids) for ranked in found] == [min(100, int(kept.sum()))] * 20
        shares = [
            len(np.intersect1d(ranked.ids, exact.search(query, 100, same).ids)) / len(ranked.ids)
            for query, ranked in zip(queries, found, strict=True)
        ]
        assert share > NARROW or np.mean(shares) == 1.0


@given(
    scores=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    n=st.integers(1, 45),
    seed=st.integers(0, 5),
)
@settings(max_examples=100, deadline=None)
def test_ties_do_not_depend_on_the_order_of_the_engine(scores: list[int], n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(1000)[: len(scores)]
    values = np.array(scores, np.float32)
    engine = sorted(range(len(ids)), key=lambda row: (-values[row], rng.random()))
    asked: list[int] = []

    def fetch(depth: int) -> Ranked:
        asked.append(depth)
        return Ranked(ids[engine[:depth]], values[engine[:depth]])

    expected = sorted(zip(-values, ids, strict=True))[:n]
    found = first_in_order(fetch, n, len(ids))
    assert [*zip(-found.scores, found.ids, strict=True)] == expected
    assert max(asked) <= len(ids)


def test_the_error_without_faiss_says_what_to_install(monkeypatch: pytest.MonkeyPatch, corpus: Corpus) -> None:
    dataset = corpus.store.open(give_embeddings(corpus, clustered(5)))
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert DenseIndex.open(dataset).size == 5, "exact search on a CPU needs no faiss"
    with pytest.raises(MissingDependency, match=r"pip install 'research-arena\[dense\]'"):
        DenseIndex.open(dataset, device="cuda")
