"""The search backend of a run: opened indexes, and the dates and texts of the documents, shared by all desks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from schemas.settings import REQUIRED_DATASETS, Resources, RetrieverName
from schemas.topic import Topic
from tasks.index.bm25 import Bm25Index
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import open_encoder
from tasks.index.lsa import LsaSpace
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.documents import DocumentReader, load_catalogue
from tasks.retrieval.graph import CitationGraph
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.lsa import LsaRetriever
from tasks.retrieval.retriever import Allowed, Catalogue, Retriever
from tasks.store.dataset import Dataset

ENGINES: Mapping[str, str] = {"bm25": "bm25", "embeddings": "dense", "lsa": "lsa"}
"""Name of the engine over each index dataset."""


@dataclass(frozen=True)
class SearchBackend:
    """The engines and documents behind the desks of many topics."""

    engines: Mapping[str, Retriever]
    primary: RetrieverName
    catalogue: Catalogue
    reader: DocumentReader
    graph: CitationGraph | None = None

    def desk(self, topic: Topic, only: Collection[int] | None = None) -> ResearchDesk:
        """Returns a new desk for one topic; with `only`, its searches can find these documents and no others."""
        allowed = Allowed.of(self.catalogue, topic, only)
        return ResearchDesk(topic, self.engines, self.primary, allowed, self.reader, self.graph)


def open_backend(retriever: RetrieverName, datasets: Mapping[str, Dataset], resources: Resources) -> SearchBackend:
    """Opens the indexes and documents that one retriever needs.

    Args:
        retriever: The primary engine; one that fuses several also makes these available as engines of their own.
        datasets: `documents`, `surveys`, and the retriever's `REQUIRED_DATASETS`. Where `ann` is given beside
            `embeddings`, dense search is approximate; where `edges` is given, desks have the citation graph.
        resources: Where the encoder and FAISS run.

    Raises:
        MissingDependency: A library or a model is not installed.
        BadInput: An index cannot be read, or was built with another encoder or for other documents.
    """
    engines: dict[str, Retriever] = {}
    if "bm25" in REQUIRED_DATASETS[retriever]:
        engines["bm25"] = Bm25Retriever(Bm25Index(datasets["bm25"]))
    if "embeddings" in REQUIRED_DATASETS[retriever]:
        engines["dense"] = _open_dense(datasets, resources)
    if "lsa" in REQUIRED_DATASETS[retriever]:
        index = DenseIndex.open(datasets["lsa"], device=resources.device)
        engines["lsa"] = LsaRetriever(index, LsaSpace.open(datasets["lsa"]))
    if retriever not in engines:
        parts = [engines[ENGINES[dataset]] for dataset in REQUIRED_DATASETS[retriever]]
        engines[retriever] = HybridRetriever(parts, name=retriever)
    catalogue = load_catalogue(datasets["documents"], datasets["surveys"])
    graph = CitationGraph(datasets["edges"], catalogue) if "edges" in datasets else None
    return SearchBackend(engines, retriever, catalogue, DocumentReader(datasets["documents"]), graph)


def _open_dense(datasets: Mapping[str, Dataset], resources: Resources) -> DenseRetriever:
    embeddings = datasets["embeddings"]
    encoder = open_encoder(embeddings, resources.device, resources.batch_size)
    if "ann" in datasets:
        return DenseRetriever(DenseIndex.open_ann(datasets["ann"]), encoder)
    return DenseRetriever(DenseIndex.open(embeddings, device=resources.device), encoder)
