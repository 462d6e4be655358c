"""Embeddings: what is encoded, how vectors are stored, and which are reused."""

import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.errors import BadInput, MissingDependency, StageFailed
from schemas.settings import EncoderSettings
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import EmbeddingSettings, KnownVectors, embeddings, open_encoder
from tasks.index.encoder import Encoder, unit_rows
from tasks.index.vectors import StoredVectors, vector_rows
from tasks.store.dataset import Dataset
from tasks.store.shard_runner import LOCAL, Job, ShardRunner
from tasks.store.store import Request
from tests.corpus.conftest import Corpus
from tests.index.conftest import WORDS, give_documents, random_title, save_tiny_model
from tests.store.conftest import Elsewhere


def documents_of(number: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    return [{"corpus_id": 7 * i + 1, "title": random_title(rng, 40)} for i in range(number)]


def settings_for(model: Path, max_tokens: int = 512) -> EmbeddingSettings:
    return EmbeddingSettings(field="title", encoder=EncoderSettings(model=str(model), max_tokens=max_tokens))


def stored(dataset: Dataset) -> dict[int, np.ndarray]:
    table = dataset.table()
    return dict(zip(table["corpus_id"].to_pylist(), vector_rows(table["vector"]), strict=True))


def test_vectors_are_the_models_own_in_unit_length(corpus: Corpus, tiny_model: Path) -> None:
    from sentence_transformers import SentenceTransformer

    rows = [*documents_of(50), {"corpus_id": 5, "title": None}]
    dataset = corpus.build(embeddings, settings_for(tiny_model), documents=give_documents(corpus, rows))
    found = stored(dataset)
    assert list(found) == sorted(found, key=lambda i: (i % 3, i))
    bare = SentenceTransformer(str(tiny_model), device="cpu").encode([row["title"] for row in rows[:-1]])
    for row, expected in zip(rows, bare / np.linalg.norm(bare, axis=1, keepdims=True), strict=False):
        np.testing.assert_allclose(found[row["corpus_id"]], expected, atol=1e-3)
    norms = np.linalg.norm(np.stack([*found.values()]).astype(np.float32), axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-3)
    index = DenseIndex.open(dataset)
    np.testing.assert_allclose(np.linalg.norm(index.vectors([*found]), axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(np.concatenate(StoredVectors.open(dataset)._parts), np.stack([*found.values()]))
    assert dataset.manifest.counts.dropped == {"no_title": 1}
    assert dataset.manifest.counts.notes == {"encoded": 50, "reused": 0}


def test_the_vector_of_the_nearest_file_is_used_for_equal_texts(
    corpus: Corpus, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"corpus_id": i, "title": f"{WORDS[i // 3]} twice"} for i in range(12)]  # each in three buckets
    settings = EmbeddingSettings(field="title", encoder=EncoderSettings(model=str(tiny_model)))
    dataset = corpus.build(embeddings, settings, documents=give_documents(corpus, rows))
    read: list[str] = []
    original = KnownVectors._read_row_group

    def watch(self: KnownVectors, file: int, group: int) -> Any:
        read.append(self._files[file].name)
        return original(self, file, group)

    monkeypatch.setattr(KnownVectors, "_read_row_group", watch)
    known = KnownVectors([dataset])
    digests = [hashlib.sha256(row["title"].encode()).digest()[:16] for row in rows] + [bytes(16)]
    for name in ("part-00001.parquet", "part-00002.parquet"):
        missing = known.fill(np.empty((13, 16), np.float16), digests, name)
        assert missing.tolist() == [12]
        assert read == [name]
        read.clear()


def test_vectors_of_known_texts_are_reused(corpus: Corpus, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.index.embeddings.ROW_GROUP", 4)
    first = corpus.build(embeddings, settings_for(tiny_model), documents=give_documents(corpus, documents_of(40)))
    moved = [{**row, "corpus_id": row["corpus_id"] + 1} for row in documents_of(60)]
    documents = give_documents(corpus, moved, buckets=4)
    second = corpus.build(embeddings, settings_for(tiny_model), documents=documents)
    assert second.manifest.counts.notes == {"encoded": 20, "reused": 40}
    later = stored(second)
    for corpus_id, vector in stored(first).items():
        np.testing.assert_array_equal(later[corpus_id + 1], vector)
    shorter = corpus.build(embeddings, settings_for(tiny_model, max_tokens=8), documents=documents)
    assert shorter.manifest.counts.notes == {"encoded": 60, "reused": 0}


def test_a_failed_build_resumes_at_the_bucket_with_the_same_bytes(
    corpus: Corpus, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Corpus(corpus.store.root.parent / "undisturbed")
    undisturbed = other.build(embeddings, settings_for(tiny_model), documents=give_documents(other, documents_of(30)))
    documents = give_documents(corpus, documents_of(30))
    encode, calls = Encoder.encode, []

    def break_at_third(self: Encoder, texts: Sequence[str]) -> np.ndarray:
        calls.append(len(texts))
        if len(calls) == 3:
            raise ZeroDivisionError("injected")
        return encode(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode", break_at_third)
        with pytest.raises(StageFailed, match="injected"):
            corpus.build(embeddings, settings_for(tiny_model), documents=documents)
    resumed = corpus.build(embeddings, settings_for(tiny_model), documents=documents)
    assert resumed.manifest.shards_resumed == 2
    assert resumed.ref.digest == undisturbed.ref.digest


def test_a_killed_bucket_encodes_hardly_a_text_twice(
    corpus: Corpus, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.index.checkpoint.BLOCK", 8)
    monkeypatch.setattr("tasks.index.checkpoint.KEPT_TEXTS", 16)
    other = Corpus(corpus.store.root.parent / "undisturbed")
    rows = [{"corpus_id": number, "title": f"{WORDS[number % 17]} {number}"} for number in range(100)]
    undisturbed = other.build(embeddings, settings_for(tiny_model), documents=give_documents(other, rows, buckets=1))
    documents = give_documents(corpus, rows, buckets=1)
    encode, encoded = Encoder.encode, Counter[str]()

    def count_and_break(self: Encoder, texts: Sequence[str]) -> np.ndarray:
        encoded.update(texts)
        if sum(encoded.values()) in (40, 80):
            raise ZeroDivisionError("injected")
        return encode(self, texts)

    monkeypatch.setattr(Encoder, "encode", count_and_break)
    for _ in range(2):
        with pytest.raises(StageFailed, match="injected"):
            corpus.build(embeddings, settings_for(tiny_model), documents=documents)
    first, second = sorted(corpus.store.root.rglob("*.npz"))[:2]
    data = bytearray(first.read_bytes())
    data[200] ^= 1  # within the vectors of its first block
    first.write_bytes(data)
    second.write_bytes(second.read_bytes()[:40])
    resumed = corpus.build(embeddings, settings_for(tiny_model), documents=documents)
    assert sum(encoded.values()) - 100 == 2 * 8 + 8 + 16  # the blocks that failed, and those that were damaged
    assert resumed.ref.digest == undisturbed.ref.digest
    assert resumed.manifest.counts.notes == {"encoded": 100, "reused": 0}


def test_texts_are_truncated_at_the_setting_or_the_models_limit(tiny_model: Path) -> None:
    text = "deep graph survey song"
    short = Encoder(EncoderSettings(model=str(tiny_model), max_tokens=8))
    assert (short.max_tokens, Encoder(EncoderSettings(model=str(tiny_model))).max_tokens) == (8, 24)
    long = short.encode([text + " bird model" + " sparse" * n for n in (0, 1, 100)])
    np.testing.assert_allclose(long[1], long[0], atol=1e-6)
    np.testing.assert_allclose(long[2], long[0], atol=1e-6)
    assert not np.allclose(short.encode([text])[0], long[0], atol=1e-3)
    assert short.encode([]).shape == (0, 16)


def test_only_queries_are_prefixed_with_the_instruction(tiny_model: Path) -> None:
    plain = Encoder(EncoderSettings(model=str(tiny_model)))
    instructed = Encoder(EncoderSettings(model=str(tiny_model), query_instruction="deep survey of "))
    np.testing.assert_array_equal(instructed.encode(["bird"]), plain.encode(["bird"]))
    np.testing.assert_allclose(instructed.encode_queries(["bird"]), plain.encode(["deep survey of bird"]), atol=1e-6)
    np.testing.assert_array_equal(plain.encode_queries(["bird"]), plain.encode(["bird"]))


def test_queries_must_use_the_same_weights_as_the_documents(corpus: Corpus, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "first", seed=1)
    dataset = corpus.build(embeddings, settings_for(model), documents=give_documents(corpus, documents_of(5)))
    assert open_encoder(dataset).settings.model == str(model)
    other = save_tiny_model(tmp_path / "second", seed=2)
    shutil.rmtree(model)
    shutil.copytree(other, model)
    with pytest.raises(BadInput, match="rebuild stage embeddings"):
        open_encoder(dataset)


def test_a_missing_library_or_model_error_gives_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(MissingDependency, match="pip install"):
        Encoder(EncoderSettings(model=str(tmp_path / "absent")))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependency, match=r"pip install 'research-arena\[dense\]'"):
        Encoder(EncoderSettings())


def test_a_zero_or_infinite_vector_is_refused() -> None:
    for bad in (0.0, np.nan, np.inf):
        with pytest.raises(BadInput, match="vector 1 of 2"):
            unit_rows(np.array([[3, 4], [bad, bad]], np.float32))


def test_another_machine_must_have_the_same_weights(corpus: Corpus, tiny_model: Path) -> None:
    def built(root: str, model: Path, runner: ShardRunner) -> Dataset:
        other = Corpus(corpus.store.root.parent / root)
        documents = give_documents(other, documents_of(30))
        store = other.store
        return store.open(
            store.build(Request(embeddings, settings_for(model), {"documents": documents}), runner=runner).ref
        )

    here, there = built("here", tiny_model, LOCAL), built("there", tiny_model, Elsewhere())
    assert there.ref == here.ref
    assert there.manifest.counts == here.manifest.counts

    class Drifted(Elsewhere):
        def run(self, jobs: Mapping[str, Job], processes: int, **options: object) -> Generator[str | None]:
            assert options["accelerated"]
            shutil.rmtree(model)
            shutil.copytree(save_tiny_model(corpus.store.root.parent / "drift", seed=1), model)
            yield from super().run(jobs, processes, **options)

    model = shutil.copytree(tiny_model, corpus.store.root.parent / "model")
    with pytest.raises(BadInput, match="install the same model on all machines"):
        built("drifted", model, Drifted())
