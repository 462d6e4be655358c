"""A small encoder with the real loading path, and datasets of documents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from schemas.identifiers import StageName
from schemas.manifest import Ref
from schemas.tables.documents import DOCUMENTS
from schemas.tables.embeddings import embeddings_table
from tasks.index.vectors import VectorWriter, vector_file
from tasks.store.parquet import write_table
from tasks.store.stage import Stage
from tasks.store.store import Request
from tasks.store.workspace import Workspace
from tests.corpus.conftest import Corpus, Given

WORDS = [
    *("deep", "learning", "survey", "graph", "neural", "network", "image", "text", "of", "the", "a", "for"),
    *("robust", "sparse", "bird", "song", "model"),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path / "root")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT of 16 dimensions that knows `WORDS` and reads at most 24 tokens."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), seed=0)


def save_tiny_model(folder: Path, seed: int) -> Path:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(seed)
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = Tokenizer(WordPiece({word: i for i, word in enumerate(marks + WORDS)}, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = Lowercase(), Whitespace()
    words.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", marks.index("[CLS]")), ("[SEP]", marks.index("[SEP]"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    shape = BertConfig(
        vocab_size=len(marks + WORDS),
        max_position_embeddings=24,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    bert = BertModel(shape)
    bert.save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    modules = (Transformer(str(folder / "bert"), max_seq_length=24), Pooling(16))
    SentenceTransformer(modules=list(modules), device="cpu").save(str(folder / "model"))
    return folder / "model"


def give_documents(corpus: Corpus, rows: Iterable[Mapping[str, Any]], buckets: int = 3) -> Ref:
    return corpus.given("documents", {DOCUMENTS: rows}, buckets)


def give_embeddings(corpus: Corpus, vectors: Mapping[int, np.ndarray], buckets: int = 3, mapped: bool = True) -> Ref:
    """Embeddings as if an encoder had made them; rows are normalised here. Old ones have no files to map."""
    table = embeddings_table(len(next(iter(vectors.values()))))

    def write(work: Workspace[Given]) -> None:
        for shard in work.pending([f"{bucket:05d}" for bucket in range(buckets)]):
            with shard:
                rows = [
                    {
                        "corpus_id": corpus_id,
                        "text_digest": corpus_id.to_bytes(16),
                        "vector": (vectors[corpus_id] / np.linalg.norm(vectors[corpus_id])).astype(np.float16),
                    }
                    for corpus_id in sorted(vectors)
                    if corpus_id % buckets == int(shard.name)
                ]
                name = f"part-{shard.name}.parquet"
                write_table(shard.file(name), table, pa.Table.from_pylist(rows, table.arrow))
                if mapped:
                    with VectorWriter(
                        shard.file(vector_file(name)), table.arrow.field("vector").type.list_size
                    ) as file:
                        for row in rows:
                            file.write(np.asarray(row["vector"])[None])

    settings = Given(content=repr([mapped, [(i, vector.tolist()) for i, vector in vectors.items()]]))
    return corpus.store.build(Request(Stage(StageName("embeddings"), 1, Given, write), settings, {})).ref


def random_title(rng: np.random.Generator, longest: int) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(1, longest + 1)))
