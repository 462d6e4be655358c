"""How an encoder computes: with 8-bit integers, in half precision, on several devices."""

import copy
from pathlib import Path

import numpy as np
import pytest

from flows.pipeline.plans.steps import encoder_mark
from schemas.errors import UsageError
from schemas.settings import EncoderSettings, Precision
from tasks.index.embeddings import EmbeddingSettings, embeddings, open_encoder
from tasks.index.encoder import Encoder
from tasks.index.replicas import Replicas
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents, random_title

MINILM = "all-MiniLM-L6-v2"


@pytest.mark.parametrize(("precision", "least"), [("int8", 0.98), ("bf16", 0.999), ("fp16", 0.9999)])
def test_other_precisions_give_nearly_the_same_directions(tiny_model: Path, precision: Precision, least: float) -> None:
    rng = np.random.default_rng(5)
    texts = [random_title(rng, 1 + number % 30) for number in range(50)]
    exact = Encoder(EncoderSettings(model=str(tiny_model)), "cpu").encode(texts)
    encoder = Encoder(EncoderSettings(model=str(tiny_model), precision=precision), "cpu")
    cosines = (encoder.encode(texts) * exact).sum(axis=1)
    assert least < cosines.min() < 0.9999999


def test_eight_bits_are_for_cpus(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match=r"int8 is for CPUs; use bf16 or fp16 on a GPU"):
        Encoder(EncoderSettings(model=str(tiny_model), precision="int8"), "cuda")


def test_queries_are_encoded_as_the_documents_were(corpus: Corpus, tiny_model: Path) -> None:
    """The dataset says the precision, and vectors of another one are not reused."""
    documents = give_documents(corpus, [{"corpus_id": 1, "title": "graph networks"}])
    made = {
        precision: corpus.build(
            embeddings,
            EmbeddingSettings(field="title", encoder=EncoderSettings(model=str(tiny_model), precision=precision)),
            documents=documents,
        )
        for precision in ("fp32", "int8")
    }
    assert [open_encoder(dataset).settings.precision for dataset in made.values()] == ["fp32", "int8"]
    assert made["int8"].manifest.counts.notes == {"encoded": 1, "reused": 0}


@pytest.mark.parametrize(
    ("model", "precision", "mark"),
    [(None, "fp32", ""), (None, "int8", "+int8"), (MINILM, "fp32", "+minilm"), (MINILM, "bf16", "+minilm+bf16")],
)
def test_the_name_of_a_run_says_the_precision(model: str | None, precision: Precision, mark: str) -> None:
    usual = EncoderSettings()
    assert encoder_mark(EncoderSettings(model=model or usual.model, precision=precision)) == mark


@pytest.mark.parametrize("copies", [1, 3])
def test_copies_of_a_model_make_the_vectors_of_the_model_alone(tiny_model: Path, copies: int) -> None:
    from sentence_transformers import SentenceTransformer

    rng = np.random.default_rng(5)
    texts = [random_title(rng, 1 + number % 30) for number in range(50)]
    model = SentenceTransformer(str(tiny_model), device="cpu")
    alone = model.encode(texts, batch_size=8, show_progress_bar=False)
    together = Replicas([model, *(copy.deepcopy(model) for _ in range(copies - 1))]).encode(texts, 8)
    np.testing.assert_array_equal(together, alone)
