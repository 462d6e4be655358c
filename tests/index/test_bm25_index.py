"""The BM25 index: scores, order, and equal bytes for equal documents."""

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import tantivy

from schemas.errors import BadInput, StageFailed
from tasks.index import bm25 as module
from tasks.index.analysis import analyze
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.index.fields import Bucket, FieldText, field_texts
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents, random_title

SETTINGS = Bm25Settings(field="title")


def titles(number: int = 400, longest: int = 12) -> dict[int, str]:
    rng = np.random.default_rng(1)
    return {int(i): random_title(rng, longest) for i in rng.choice(10_000, number, replace=False)}


def rows(texts: dict[int, str]) -> list[dict[str, object]]:
    return [{"corpus_id": i, "title": text} for i, text in texts.items()]


def expected_scores(texts: dict[int, str], weights: dict[str, float]) -> dict[int, float]:
    """Lucene's formula, written out; field lengths below 40 terms are stored exactly."""
    terms = {i: Counter(analyze(text)) for i, text in texts.items()}
    mean = sum(c.total() for c in terms.values()) / len(terms)
    scores: dict[int, float] = {}
    for term, weight in weights.items():
        frequency = sum(term in counts for counts in terms.values())
        idf = math.log(1 + (len(terms) - frequency + 0.5) / (frequency + 0.5))
        for i, counts in terms.items():
            if tf := counts[term]:
                part = idf * 2.2 * tf / (tf + 1.2 * (0.25 + 0.75 * counts.total() / mean))
                scores[i] = scores.get(i, 0) + weight * part
    return scores


@pytest.mark.parametrize("weights", [{"survey": 1.0}, {"deep": 2.0, "learning": 1.0, "bird": 0.25, "absent": 1.0}])
def test_scores_equal_lucenes_and_ties_are_ordered_by_id(corpus: Corpus, weights: dict[str, float]) -> None:
    texts = titles()
    index = Bm25Index(corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows(texts))))
    found = index.search(weights, len(texts))
    expected = expected_scores(texts, weights)
    assert set(found.ids.tolist()) == set(expected)
    np.testing.assert_allclose(found.scores, [expected[i] for i in found.ids.tolist()], rtol=1e-5)
    assert [*zip(-found.scores, found.ids, strict=True)] == sorted(zip(-found.scores, found.ids, strict=True))
    assert len(set(found.scores.tolist())) < len(found.scores), "the test needs ties"
    for n in (1, 7, 50, 333):
        np.testing.assert_array_equal(index.search(weights, n).ids, found.ids[:n])


def test_index_statistics_match_the_documents(corpus: Corpus) -> None:
    texts = {1: "bird song", 2: "bird", 3: "graph", 4: ""}
    dataset = corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows(texts)))
    index = Bm25Index(dataset)
    assert (index.size, index.document_frequency("bird"), index.document_frequency("absent")) == (3, 2, 0)
    assert dataset.manifest.counts.dropped == {"no_title": 1}
    assert (dataset.manifest.counts.read, dataset.manifest.counts.kept) == (4, 3)


def test_equal_documents_give_equal_bytes_with_any_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD_DOCUMENTS", 200)
    digests: list[str] = []
    for workers in (1, 2):
        corpus = Corpus(tmp_path / str(workers))
        documents = give_documents(corpus, rows(titles()), buckets=4)
        digests.append(corpus.build(bm25, SETTINGS, workers=workers, documents=documents).ref.digest)
    assert digests[0] == digests[1]


def test_several_segments_rank_like_one_and_tantivy_opens_them(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = titles()
    documents = give_documents(corpus, rows(texts), buckets=4)
    whole = Bm25Index(corpus.build(bm25, SETTINGS, documents=documents))
    monkeypatch.setattr(module, "SHARD_DOCUMENTS", 200)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 3000)
    other = Corpus(corpus.store.root.parent / "split")
    dataset = other.build(bm25, SETTINGS, documents=give_documents(other, rows(texts), buckets=4))
    plain = tantivy.Index.open(str(dataset.path("index"))).searcher()
    assert plain.num_docs == len(texts)
    assert plain.num_segments > 4
    split = Bm25Index(dataset)
    for weights in ({"survey": 1.0}, {"deep": 2.0, "of": 1.0, "song": 0.5}):
        for n in (5, 400):
            for ours, theirs in zip(split.search(weights, n), whole.search(weights, n), strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_searching_writes_nothing_into_the_dataset(corpus: Corpus) -> None:
    dataset = corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows(titles(20))))
    before = sorted(path.name for path in dataset.path("index").iterdir())
    assert {name.rpartition(".")[2] for name in before} == {*module.SEGMENT_FILES, "json"}
    assert len(Bm25Index(dataset).search({"deep": 1.0}, 5).ids)
    assert sorted(path.name for path in dataset.path("index").iterdir()) == before


def test_a_failed_build_resumes_at_the_shard_with_the_same_bytes(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD_DOCUMENTS", 150)
    other = Corpus(corpus.store.root.parent / "undisturbed")
    undisturbed = other.build(bm25, SETTINGS, documents=give_documents(other, rows(titles()), buckets=4))
    documents = give_documents(corpus, rows(titles()), buckets=4)

    def break_at_third(field: str, bucket: Bucket) -> Iterator[FieldText]:
        yield from field_texts("title", bucket)
        if "00002" in bucket.documents.name:
            raise ZeroDivisionError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(module, "field_texts", break_at_third)
        with pytest.raises(StageFailed, match="injected"):
            corpus.build(bm25, SETTINGS, documents=documents)
    resumed = corpus.build(bm25, SETTINGS, documents=documents)
    assert resumed.manifest.shards_resumed == 2
    assert resumed.ref.digest == undisturbed.ref.digest


def test_a_stemmed_index_takes_forms_of_a_word_for_one_term_and_a_plain_one_does_not(corpus: Corpus) -> None:
    documents = give_documents(corpus, rows({1: "Retrieving passages", 2: "Retrieval of a passage"}))
    found: dict[str, list[int]] = {}
    for stemming in ("none", "english"):
        settings = Bm25Settings(field="title", stemming=stemming)
        retriever = Bm25Retriever(Bm25Index(corpus.build(bm25, settings, documents=documents)))
        assert retriever.document_frequency(retriever.terms("passage")[0]) == (2 if stemming == "english" else 1)
        found[stemming] = sorted(hit.corpus_id for hit in retriever.search("PASSAGES", 5).hits)
    assert found == {"none": [1], "english": [1, 2]}


def test_an_index_without_documents_finds_nothing(corpus: Corpus) -> None:
    dataset = corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows({1: "", 2: " "})))
    index = Bm25Index(dataset)
    assert index.size == 0
    assert not len(index.search({"bird": 1.0}, 10).ids)


def test_the_error_of_a_damaged_index_says_what_to_do(corpus: Corpus) -> None:
    dataset = corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows(titles(20))))
    next(dataset.path("index").glob("*.term")).unlink()
    with pytest.raises(BadInput, match="rebuild stage bm25"):
        Bm25Index(dataset)


def open_and_drop(folder: Path, times: int) -> None:
    for _ in range(times):
        Bm25Index(Dataset(folder))


@pytest.mark.long
def test_processes_open_and_drop_an_index_at_once(corpus: Corpus) -> None:
    dataset = corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows(titles(50))))
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        list(pool.map(open_and_drop, [dataset.folder] * 4, [1_250] * 4))
    assert len(list((corpus.store.root / ".opened").iterdir())) == 1


def test_a_moved_store_still_opens_its_indexes(corpus: Corpus) -> None:
    dataset = corpus.build(bm25, SETTINGS, documents=give_documents(corpus, rows(titles(50))))
    assert Bm25Index(dataset).size == 50
    moved = corpus.store.root.rename(corpus.store.root.with_name("moved"))
    assert Bm25Index(Dataset(moved / "bm25" / dataset.folder.name)).size == 50
