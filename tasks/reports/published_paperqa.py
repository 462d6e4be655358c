"""What others printed on questions over papers: figures to stand beside ours."""

from typing import NamedTuple


class PublishedModel(NamedTuple):
    """A row of the main table, by element tag; two examples tagged `figure` are counted as image in some rows only."""

    system: str
    model: str
    text: float
    table: float
    image: float
    formula: float
    metadata: float
    all: float


class PublishedMethod(NamedTuple):
    """A row of the method ablation, by task and evaluation tag; the page does not say with which model."""

    system: str
    single: float
    multiple: float
    retrieval: float
    subjective: float
    objective: float
    all: float


PUBLISHED_MODELS = (
    PublishedModel("Classic RAG", "GPT-4o-mini", 12.3, 11.9, 12.5, 16.7, 13.6, 13.4),
    PublishedModel("Classic RAG", "GPT-4V", 13.2, 13.9, 10.0, 13.9, 13.6, 14.7),
    PublishedModel("Classic RAG", "Llama-3.3-70B-Instruct", 8.7, 7.9, 9.5, 16.7, 0.0, 10.0),
    PublishedModel("Classic RAG", "Qwen2.5-VL-72B-Instruct", 9.6, 5.9, 11.9, 11.1, 13.6, 10.5),
    PublishedModel("Classic RAG", "DeepSeek-R1", 11.7, 13.9, 9.5, 30.6, 9.1, 13.9),
    PublishedModel("NeuSym-RAG", "GPT-4o-mini", 33.0, 12.9, 11.9, 19.4, 18.2, 30.7),
    PublishedModel("NeuSym-RAG", "GPT-4V", 38.9, 18.8, 23.8, 38.9, 27.3, 37.3),
    PublishedModel("NeuSym-RAG", "Llama-3.3-70B-Instruct", 30.6, 11.9, 16.7, 16.7, 27.3, 29.3),
    PublishedModel("NeuSym-RAG", "Qwen2.5-VL-72B-Instruct", 43.4, 15.8, 11.9, 25.0, 27.3, 39.6),
    PublishedModel("NeuSym-RAG", "DeepSeek-R1", 33.2, 16.8, 11.9, 27.8, 18.2, 32.4),
)

PUBLISHED_METHODS = (
    PublishedMethod("Question only", 5.7, 8.0, 0.4, 9.4, 2.7, 4.0),
    PublishedMethod("Title + abstract", 5.7, 14.0, 0.0, 13.1, 3.6, 5.4),
    PublishedMethod("Full text with cut-off", 28.3, 10.7, 0.4, 26.2, 7.6, 11.2),
    PublishedMethod("Classic RAG", 18.2, 4.0, 9.4, 8.4, 11.0, 10.5),
    PublishedMethod("Iterative classic RAG", 8.2, 10.0, 15.2, 5.6, 13.2, 11.8),
    PublishedMethod("Two-stage Neu-RAG", 19.5, 10.0, 5.3, 15.9, 9.4, 10.7),
    PublishedMethod("Iterative Neu-RAG", 37.7, 18.7, 48.4, 32.7, 38.3, 37.3),
    PublishedMethod("Two-stage Sym-RAG", 12.2, 5.4, 9.4, 10.6, 8.7, 9.1),
    PublishedMethod("Iterative Sym-RAG", 32.1, 14.7, 33.6, 27.1, 28.3, 28.0),
    PublishedMethod("Graph-RAG", 22.2, 11.1, 0.0, 21.1, 11.5, 15.6),
    PublishedMethod("Hybrid-RAG (two-stage)", 23.3, 9.3, 5.7, 16.8, 10.5, 11.8),
    PublishedMethod("NeuSym-RAG", 28.3, 32.3, 58.2, 27.1, 42.6, 39.6),
)
