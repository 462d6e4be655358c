"""Stage `embeddings`: encodes one field of the documents; also opens the encoder of a dataset."""

import hashlib
import json
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.identifiers import Field
from schemas.manifest import Counts
from schemas.settings import EncoderSettings, Resources, Settings
from schemas.tables.embeddings import embeddings_table
from tasks.index.checkpoint import EncodedBlocks
from tasks.index.encoder import Device, Encoder
from tasks.index.fields import Bucket, FieldText, field_buckets, field_texts
from tasks.index.vectors import VectorWriter, vector_file, vector_rows
from tasks.store.dataset import Dataset
from tasks.store.parquet import ParquetReader, TableWriter
from tasks.store.shard import MARKERS, SCRATCH, SHARED, Shard
from tasks.store.stage import stage
from tasks.store.workspace import Progress, Workspace

DESCRIPTION = "encoder.json"
KEPT = "encoded"
"""Scratch folder with the encoded texts of unfinished buckets."""
CHUNK = 4096
"""Texts in memory at a time; they are sorted by length before encoding."""
ROW_GROUP = 1024
"""Rows per row group: a later dataset reads this many to reuse a single vector."""


class EmbeddingSettings(Settings):
    """Which field is encoded, and with which model."""

    field: Field
    encoder: EncoderSettings = EncoderSettings()


@stage("embeddings", version=3, settings=EmbeddingSettings, after="bm25")
def embeddings(work: Workspace[EmbeddingSettings]) -> None:
    """Encodes a field of all documents, one shard per bucket, with rows ascending by corpus_id.

    Inputs: `documents`; `full_texts` when the field is `text`. Output: the embeddings; the same vectors once more in
    `vectors-*.npy`, uncompressed, which searches map into memory; and `encoder.json`, which describes the encoder down
    to the digest of its weights.

    Vectors are normalised in float32 (norm 1 within 1e-6) and stored in float16 (norm 1 within 1e-3), so readers
    normalise them again. Of a killed stage, all but the last half minute of encoding is kept.
    A text that an earlier dataset of the same encoder contains is not encoded again
    (`counts.notes`: `encoded`, `reused`), and an unchanged bucket is reused as a whole. Equal texts give equal bytes on
    the same device with the same batches; otherwise components differ by rounding errors below 1e-3.
    """
    here: Device = (
        "cpu" if work.runner.remote else work.resources.device
    )  # a remote runner encodes; this encoder is only described
    encoder = Encoder(work.settings.encoder, here, work.resources.batch_size)
    description = _describe(encoder)
    earlier = [dataset for dataset in work.earlier if dataset.whole and _stored_description(dataset) == description]
    buckets = field_buckets(work, work.settings.field)
    made_by = json.dumps(description, sort_keys=True)
    reads = {f"{n:05d}": [made_by, *(path for path in bucket if path)] for n, bucket in enumerate(buckets)}
    if work.runner.remote:
        job = _RemoteJob(work.settings, work.resources, made_by, tuple(dataset.folder for dataset in earlier))
        tasks = {name: (bucket, job) for name, bucket in zip(reads, buckets, strict=True)}
        work.map_shards(_embed_remotely, tasks, reads, _as_reused, accelerated=True)
    tools = _Tools(encoder, KnownVectors([] if work.runner.remote else earlier), made_by)
    for shard in work.pending([*reads, "encoder"], reads, _as_reused):
        with shard:
            if shard.name == "encoder":
                shard.file(DESCRIPTION).write_text(json.dumps(description, indent=1))
            else:
                place, bucket = int(shard.name), buckets[int(shard.name)]
                _embed_bucket(shard, work.settings.field, bucket, tools, _progress(work, place, len(buckets), bucket))


class _Tools(NamedTuple):
    """The loaded model, the vectors that need no encoding, and the description of the model."""

    encoder: Encoder
    known: "KnownVectors"
    made_by: str


def _progress(work: Workspace[EmbeddingSettings], place: int, buckets: int, bucket: Bucket) -> Callable[[int], None]:
    """Returns a callback that reports how many rows of a bucket are done."""
    note = f"bucket {place:05d}: {{}} of {bucket.rows}"
    return lambda rows: work.report(Progress(work.stage, place, buckets + 1, note.format(rows)))


class _RemoteJob(NamedTuple):
    """Everything another machine needs to encode a bucket as this one would."""

    settings: EmbeddingSettings
    resources: Resources
    made_by: str
    known: tuple[Path, ...]


def _embed_remotely(shard: Shard, task: tuple[Bucket, _RemoteJob]) -> None:
    bucket, job = task
    _embed_bucket(shard, job.settings.field, bucket, _open_once(job))


@lru_cache(maxsize=1)
def _open_once(job: _RemoteJob) -> _Tools:
    """Opens the encoder and the known vectors once per worker process.

    Raises:
        BadInput: The model of that name has other weights on this machine than where the stage runs.
    """
    encoder = Encoder(job.settings.encoder, job.resources.device, job.resources.batch_size)
    if (found := json.dumps(_describe(encoder), sort_keys=True)) != job.made_by:
        raise BadInput(
            f"encoder on {socket.gethostname()} is {found}, but where the stage runs it is {job.made_by}; "
            "install the same model on all machines"
        )
    return _Tools(encoder, KnownVectors([Dataset(folder) for folder in job.known]), job.made_by)


def _as_reused(counts: Counts) -> Counts:
    """Returns the counts of a bucket that is reused as a whole."""
    return counts.model_copy(update={"notes": {"encoded": 0, "reused": counts.kept}})


def open_encoder(dataset: Dataset, device: Device = "auto", batch_size: int = 0) -> Encoder:
    """Opens the encoder that made a dataset of stage `embeddings`, to encode queries.

    Raises:
        MissingDependency: The model or its library is not installed.
        BadInput: The model of that name now has other weights or another limit, so its queries would not match the
            vectors of the documents.
    """
    encoder = Encoder(dataset.manifest.settings(embeddings).encoder, device, batch_size)
    stored, found = _stored_description(dataset), _describe(encoder)
    if stored != found:
        raise BadInput(
            f"embeddings {dataset.ref.key}: made with {stored}, but the encoder is now {found}; "
            "restore the model, or rebuild stage embeddings with force"
        )
    return encoder


class _Keys(NamedTuple):
    """The first halves of a file's digests in ascending order, the row of each, and the ends of the row groups."""

    keys: NDArray[np.uint64]
    rows: NDArray[np.int32]
    ends: NDArray[np.int64]


class KnownVectors:
    """Finds vectors of earlier datasets by the digest of their text, with 12 bytes of memory per vector.

    Args:
        datasets: Datasets of stage `embeddings` made by the same encoder. For a text that is in several files, the
            vector of the file named in `fill` is used, or else the first one.
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        files = {entry.sha256: dataset.path(entry.path) for dataset in datasets for entry in dataset.manifest.files}
        self._files = [path for path in files.values() if path.suffix == ".parquet"]
        self._known = [_read_keys(path) for path in self._files]
        self._row_group = lru_cache(maxsize=2)(self._read_row_group)

    def fill(self, vectors: NDArray[np.float16], digests: Sequence[bytes], near: str) -> NDArray[np.int64]:
        """Fills in the vectors of known texts and returns the positions of the unknown ones in ascending order.

        Args:
            vectors: `(n, dim)`, one row per text.
            digests: Digests of the n texts.
            near: Name of the file that has most of them. It is searched first, so that each of its row groups is read
                only once.
        """
        wanted = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
        missing = np.arange(len(wanted))
        for file in sorted(range(len(self._files)), key=lambda file: self._files[file].name != near):
            if not len(missing):
                break
            for positions, found in self._find_in(file, wanted, missing):
                vectors[positions] = found
                missing = missing[~np.isin(missing, positions)]
        return missing

    def _find_in(
        self, file: int, wanted: NDArray[np.uint64], missing: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float16]]]:
        """Positions of texts, and their vectors, for each row group of a file that has some."""
        known = self._known[file]
        if not len(known.keys):
            return
        at = np.minimum(np.searchsorted(known.keys, wanted[missing, 0]), len(known.keys) - 1)
        same = known.keys[at] == wanted[missing, 0]
        positions, rows = missing[same], known.rows[at[same]]
        groups = np.searchsorted(known.ends, rows, side="right")
        for group in np.unique(groups).tolist():
            stored, vectors = self._row_group(file, group)
            asked = positions[groups == group]
            local = rows[groups == group] - (known.ends[group - 1] if group else 0)
            whole = (stored[local] == wanted[asked]).all(axis=1)
            yield asked[whole], vectors[local[whole]]

    def _read_row_group(self, file: int, group: int) -> tuple[NDArray[np.uint64], NDArray[np.float16]]:
        with ParquetReader(self._files[file]) as opened:
            table = opened.read_row_group(group, columns=["text_digest", "vector"])
        return _digest_array(table["text_digest"]), vector_rows(table["vector"])


def _read_keys(path: Path) -> _Keys:
    with ParquetReader(path) as file:
        halves = _digest_array(file.read(columns=["text_digest"])["text_digest"])[:, 0]
        groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    order = np.argsort(halves, kind="stable").astype(np.int32)
    return _Keys(halves[order], order, np.cumsum(groups, dtype=np.int64))


def _digest_array(digests: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Returns each digest as two integers, `(n, 2) uint64`."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], "<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)]
        for chunk in digests.chunks
    ]
    return np.concatenate([np.empty((0, 2), np.uint64), *chunks])


def _describe(encoder: Encoder) -> dict[str, str | int]:
    precision = encoder.settings.precision
    return {
        "model": encoder.settings.model,
        "dimensions": encoder.dimensions,
        "max_tokens": encoder.max_tokens,
        "weights": encoder.weights,
        **({} if precision == "fp32" else {"precision": precision}),
    }


def _stored_description(dataset: Dataset) -> dict[str, str | int]:
    return json.loads(dataset.path(DESCRIPTION).read_bytes())


def _embed_bucket(
    shard: Shard, field: Field, bucket: Bucket, tools: _Tools, report: Callable[[int], None] = lambda rows: None
) -> None:
    """Writes the vectors of one bucket, a chunk at a time; what was encoded before a kill is not encoded again."""
    encoder, known, made_by = tools
    blocks = EncodedBlocks(_kept_folder(shard), encoder, made_by)
    table = embeddings_table(encoder.dimensions)
    encoded = reused = 0
    name = f"part-{shard.name}.parquet"
    with (
        TableWriter(shard.file(name), table, row_group=ROW_GROUP) as writer,
        VectorWriter(shard.file(vector_file(name)), encoder.dimensions) as mapped,
    ):
        for chunk in _chunks(field_texts(field, bucket)):
            digests = text_digests(chunk)
            vectors = np.empty((len(chunk), encoder.dimensions), np.float16)
            missing = known.fill(vectors, digests, name)
            before = writer.rows + len(chunk) - len(missing)
            new = [chunk[position].text for position in missing], [digests[position] for position in missing]
            vectors[missing] = blocks.encode(*new, lambda done, before=before: report(before + done))
            writer.write(embedding_rows(table.arrow, chunk, digests, vectors))
            mapped.write(vectors)
            reused += len(chunk) - len(missing)
            encoded += len(missing)
            report(writer.rows)
    shard.counts.read, shard.counts.kept = bucket.rows, encoded + reused
    if missing := shard.counts.read - shard.counts.kept:
        shard.counts.dropped[f"no_{field}"] = missing
    shard.counts.notes = {"encoded": encoded, "reused": reused}


def _kept_folder(shard: Shard) -> Path:
    """Returns where the encoded texts of an unfinished bucket are kept; deletes those of finished ones."""
    kept = shard.folder / SCRATCH / SHARED / KEPT
    for folder in kept.glob("*"):
        if (shard.folder / MARKERS / f"{folder.name}.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
    return kept / shard.name


def _chunks(texts: Iterator[FieldText]) -> Iterator[list[FieldText]]:
    while chunk := list(islice(texts, CHUNK)):
        yield chunk


def text_digests(chunk: Sequence[FieldText]) -> list[bytes]:
    """Returns the digest by which the vector of a text is found again, for each text."""
    return [hashlib.sha256(text.encode()).digest()[:16] for _, text in chunk]


def embedding_rows(
    schema: pa.Schema, chunk: Sequence[FieldText], digests: Sequence[bytes], vectors: NDArray[np.float16]
) -> pa.Table:
    """Returns rows of the table of embeddings."""
    columns = [
        pa.array([text.corpus_id for text in chunk], pa.int64()),
        pa.array(digests, pa.binary(16)),
        pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
    ]
    return pa.table(columns, schema=schema)
