"""The latent semantic index: against numpy's own SVD, across corpora and runs, and as an engine."""

from collections import Counter
from math import log
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import BadInput
from tasks.index import lsa as module
from tasks.index.analysis import analyze
from tasks.index.dense import DenseIndex
from tasks.index.lsa import LsaSettings, LsaSpace, lsa
from tasks.retrieval.lsa import LsaRetriever
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents, random_title


def build(corpus: Corpus, titles: dict[int, str | None], dimensions: int = 4) -> Dataset:
    rows = [{"corpus_id": i, "title": title, "abstract": "", "date": None} for i, title in titles.items()]
    settings = LsaSettings(field="title", dimensions=dimensions)
    return corpus.build(lsa, settings, documents=give_documents(corpus, rows))


def stored(dataset: Dataset) -> dict[int, np.ndarray]:
    table = dataset.table()
    return dict(zip(table["corpus_id"].to_pylist(), np.array(table["vector"].to_pylist(), np.float64), strict=True))


def some_titles(n: int) -> dict[int, str | None]:
    rng = np.random.default_rng(5)
    return {i: random_title(rng, 8) for i in range(100, 100 + n)}


def test_similarities_are_those_of_an_exact_svd(corpus: Corpus) -> None:
    """TF-IDF with weights (1 + ln tf) (1 + ln((1 + N) / (1 + df))), rows of length 1, the 3 largest singular values."""
    titles = some_titles(60)
    found = stored(build(corpus, titles))
    texts = [Counter(analyze(title or "")) for title in titles.values()]
    terms = sorted({term for text in texts for term in text})
    frequency = {term: sum(term in text for text in texts) for term in terms}
    weights = np.array(
        [
            [(1 + log(text[t])) * (1 + log((1 + len(texts)) / (1 + frequency[t]))) if text[t] else 0 for t in terms]
            for text in texts
        ]
    )
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    projected = weights @ np.linalg.svd(unit)[2][:3].T
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    ours = np.array([found[i] for i in titles])
    assert ours @ ours.T == pytest.approx(projected @ projected.T, abs=5e-3)
    assert ours.shape == (60, 4) and not ours[:, 3].any(), "the last axis is for texts without a known term"


def test_words_that_share_their_neighbours_are_alike(corpus: Corpus) -> None:
    """No paper has both "gull" and "tern", but both occur with "ocean" and "wind"; "bond" occurs with "market"."""
    titles: dict[int, str | None] = dict(enumerate(["gull ocean wind", "tern ocean wind", "bond market risk"] * 20))
    space = LsaSpace.open(build(corpus, titles, dimensions=3))
    gull, tern, bond = space.encode_queries(["gull", "tern", "bond"])
    assert gull @ tern > 0.7 and abs(gull @ bond) < 0.1


def test_a_text_without_a_known_term_finds_nothing_and_is_like_no_other(corpus: Corpus) -> None:
    dataset = build(corpus, some_titles(40) | {7: "?!", 8: None})
    retriever = LsaRetriever(DenseIndex.open(dataset, device="cpu"), LsaSpace.open(dataset))
    assert retriever.search("zyx", 5).hits == [] and retriever.search("?!", 5).hits == []
    assert [hit.score for hit in retriever.search("deep graph", 42).hits][-1] <= 0
    assert set(stored(dataset)) == {*range(100, 140), 7} and dataset.manifest.counts.dropped == {"no_title": 1}
    others = retriever.vectors(range(100, 140)) @ retriever.vectors([7])[0]
    assert not others.any()
    with pytest.raises(BadInput, match="request at least 1"):
        retriever.search("zyx", 0)


def test_a_large_corpus_is_sampled_and_every_document_gets_a_vector(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRAINING", 25)
    read = list(module._training_texts("title", [module.Bucket(p) for p in _files(corpus, some_titles(90))]))
    assert len(read) == 23 and len(stored(build(corpus, some_titles(90)))) == 90


def _files(corpus: Corpus, titles: dict[int, str | None]) -> list[Path]:
    rows = [{"corpus_id": i, "title": title, "abstract": "", "date": None} for i, title in titles.items()]
    return corpus.store.open(give_documents(corpus, rows)).files()


def test_two_builds_have_equal_bytes(tmp_path: Path) -> None:
    stores = [Corpus(tmp_path / name) for name in ("one", "two")]
    one, two = ({f.path: f.sha256 for f in build(corpus, some_titles(50)).manifest.files} for corpus in stores)
    assert one == two


def test_a_corpus_of_one_word_has_a_space(corpus: Corpus) -> None:
    assert LsaSpace.open(build(corpus, {1: "bird", 2: "bird"})).encode_queries(["bird"]).tolist() == [[1, 0, 0, 0]]


def test_a_corpus_without_terms_is_refused(corpus: Corpus) -> None:
    with pytest.raises(BadInput, match="have no terms to train on"):
        build(corpus, {1: "?!", 2: None})
