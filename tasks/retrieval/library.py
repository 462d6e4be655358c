"""What all desks of a run share: opened indexes, and the documents' dates and texts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from schemas.settings import Resources, RetrieverName
from schemas.topic import Topic
from tasks.index.bm25 import Bm25Index
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import open_encoder
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.documents import DocumentReader, load_catalogue
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.retriever import Allowed, Catalogue, Retriever
from tasks.store.dataset import Dataset

PARTS: Mapping[RetrieverName, tuple[str, ...]] = {
    "bm25": ("bm25",),
    "dense": ("embeddings",),
    "hybrid": ("bm25", "embeddings"),
}
"""Datasets that each retriever needs."""


@dataclass(frozen=True)
class Library:
    """Where the desks of many topics search and read."""

    engines: Mapping[str, Retriever]
    primary: RetrieverName
    catalogue: Catalogue
    reader: DocumentReader

    def desk(self, topic: Topic, only: Collection[int] | None = None) -> ResearchDesk:
        """A desk for one topic, with nothing searched yet; with `only`, just these documents can be found."""
        return ResearchDesk(topic, self.engines, self.primary, Allowed.of(self.catalogue, topic, only), self.reader)


def open_library(retriever: RetrieverName, datasets: Mapping[str, Dataset], resources: Resources) -> Library:
    """Opens what one retriever needs.

    Args:
        retriever: Becomes the primary engine; `hybrid` brings `bm25` and `dense` as engines of their own.
        datasets: `documents`, `surveys`, and of `bm25`, `embeddings` what `PARTS` lists; searched approximately where
            there is an `ann` beside `embeddings`.
        resources: Where the encoder and FAISS run.

    Raises:
        MissingDependency: A library or a model is not there.
        BadInput: An index cannot be read, or was made by another encoder.
    """
    engines: dict[str, Retriever] = {}
    if "bm25" in PARTS[retriever]:
        engines["bm25"] = Bm25Retriever(Bm25Index(datasets["bm25"]))
    if "embeddings" in PARTS[retriever]:
        engines["dense"] = _open_dense(datasets, resources)
    if retriever == "hybrid":
        engines["hybrid"] = HybridRetriever([engines["bm25"], engines["dense"]])
    catalogue = load_catalogue(datasets["documents"], datasets["surveys"])
    return Library(engines, retriever, catalogue, DocumentReader(datasets["documents"]))


def _open_dense(datasets: Mapping[str, Dataset], resources: Resources) -> DenseRetriever:
    embeddings = datasets["embeddings"]
    encoder = open_encoder(embeddings, resources.device, resources.batch_size)
    if "ann" in datasets:
        return DenseRetriever(DenseIndex.open_ann(datasets["ann"]), encoder)
    return DenseRetriever(DenseIndex.open(embeddings, device=resources.device), encoder)
