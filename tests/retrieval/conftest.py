"""A small collection with many ties, searched by terms and by vectors."""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from schemas.identifiers import CorpusId
from schemas.settings import EncoderSettings
from schemas.topic import Topic
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.index.dense import DenseIndex
from tasks.index.vectors import StoredVectors
from tasks.retrieval.documents import DocumentReader, load_catalogue
from tasks.retrieval.retriever import Catalogue
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents, give_embeddings, random_title

DIMENSIONS = 6
FIRST_DAY = date(2019, 12, 1)


class Axes:
    """An encoder for the tests' vectors: a text's vector points along the axes of its words' lengths."""

    dimensions = DIMENSIONS
    settings = EncoderSettings(model="axes")

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.full((len(texts), DIMENSIONS), 0.1, np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                vectors[row, len(word) % DIMENSIONS] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Collection(NamedTuple):
    """Both indexes, the unit vectors in the order of the dense one, and what the filter and the desk need."""

    bm25: Bm25Index
    dense: DenseIndex
    vectors: np.ndarray
    catalogue: Catalogue
    reader: DocumentReader
    topics: list[Topic]


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """150 short documents of 60 days, in three segments; a tenth are surveys, a tenth have no date."""
    return make_collection(tmp_path_factory.mktemp("collection"))


def make_collection(root: Path) -> Collection:
    corpus = Corpus(root)
    rng = np.random.default_rng(7)
    ids = [int(i) for i in rng.permutation(5000)[:150]]
    rows = [
        {
            "corpus_id": i,
            "title": random_title(rng, 4),
            "abstract": f"Abstract of {i}",
            "date": None if rng.random() < 0.1 else FIRST_DAY + timedelta(days=int(rng.integers(60))),
        }
        for i in ids
    ]
    surveys = [i for i in ids if rng.random() < 0.1]
    documents = give_documents(corpus, rows)
    vectors = {i: rng.integers(0, 3, DIMENSIONS) + 0.5 for i in ids}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.index.bm25.SEGMENT_BYTES", 1000)
        index = Bm25Index(corpus.build(bm25, Bm25Settings(field="title"), documents=documents))
    opened = corpus.store.open(documents)
    accepted = corpus.store.open(corpus.accepted(*surveys, 99_999, rejected=ids[:3]))
    topics = [
        Topic(CorpusId(topic_id), random_title(rng, 5), FIRST_DAY + timedelta(days=days))
        for topic_id, days in ((surveys[0], 25), (ids[5], 3), (ids[6], 58), (99_999, 40), (ids[7], -1))
    ]
    embeddings = corpus.store.open(give_embeddings(corpus, vectors))
    return Collection(
        index,
        DenseIndex.open(embeddings),
        (stored := StoredVectors.open(embeddings)).take(np.arange(stored.size)),
        load_catalogue(opened, accepted),
        DocumentReader(opened),
        topics,
    )
