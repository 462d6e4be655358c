"""Stage `lsa`: a vector space made from the corpus alone (TF-IDF and a truncated SVD); `LsaSpace` encodes queries."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput, MissingDependency
from schemas.identifiers import Field
from schemas.settings import LSA_DIMENSIONS, Settings
from schemas.tables.embeddings import embeddings_table
from tasks.index.analysis import analyze
from tasks.index.embeddings import embedding_rows, text_digests
from tasks.index.fields import Bucket, field_buckets, field_texts
from tasks.store.dataset import Dataset
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

TERMS, VECTORS = "terms.txt", "terms.npy"
"""Files of a space: its terms, one per line, and their vectors, `(n_terms, dim) float32`."""

TRAINING = 100_000
"""Most documents that the space is trained on, evenly spaced; this bounds memory at about 2 GiB for any corpus."""

VOCABULARY = 100_000
"""Most terms, the most frequent ones."""

COMMON = 0.3
"""Terms that a larger share of documents has are left out."""

RARE = 2
"""Terms that fewer documents have are left out, once the space is trained on `SMALL` documents."""

SMALL = 1_000
ITERATIONS = 5
"""Power iterations of the randomised SVD."""

SEED = 0
CHUNK = 2048
"""Texts that are projected at once."""


class LsaSettings(Settings):
    """Which field is projected, and into how many dimensions."""

    field: Field
    dimensions: int = LSA_DIMENSIONS


class _Job(NamedTuple):
    """A bucket to project, and the folder of the space."""

    bucket: Bucket
    settings: LsaSettings
    space: Path


@stage("lsa", version=1, settings=LsaSettings, after="embeddings")
def lsa(work: Workspace[LsaSettings]) -> None:
    """Trains a latent semantic space on a field of the documents, and writes the vector of each document.

    Inputs: `documents`; `full_texts` when the field is `text`. Output: vectors in the form of stage `embeddings`, one
    shard per bucket, and the space: `terms.txt`, `terms.npy`.

    No weights come from elsewhere. The space is trained on at most `TRAINING` documents, in one thread and with a fixed
    seed, so that the number of processors does not change it. Its last axis is kept for texts without any known term:
    their similarity to all others is 0.

    Source:
        Deerwester et al., Indexing by latent semantic analysis, 1990; weights 1 + ln(tf) times idf as in Dumais, 1991;
        randomised SVD of Halko, Martinsson and Tropp, 2011, by scikit-learn.
    """
    buckets = field_buckets(work, work.settings.field)
    for shard in work.pending(["space"]):
        with shard:
            terms, vectors = _train(list(_training_texts(work.settings.field, buckets)), work.settings.dimensions)
            shard.file(TERMS).write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")
            with shard.file(VECTORS).open("wb") as handle:
                np.save(handle, vectors)
            shard.counts.notes = {"terms": len(terms)}
    jobs = {f"{n:05d}": _Job(bucket, work.settings, work.folder) for n, bucket in enumerate(buckets)}
    work.map_shards(_project, jobs)


def _training_texts(field: Field, buckets: Sequence[Bucket]) -> Iterator[str]:
    """Yields every n-th text, so that there are at most `TRAINING` of them."""
    step = max(1, -(-sum(bucket.rows for bucket in buckets) // TRAINING))
    texts = (found.text for bucket in buckets for found in field_texts(field, bucket))
    return islice(texts, 0, None, step)


def _train(texts: Sequence[str], dimensions: int) -> tuple[list[str], NDArray[np.float32]]:
    """Returns terms, ascending, and their vectors `(n_terms, dimensions) float32`, with the terms' idf in them.

    Raises:
        MissingDependency: scikit-learn is not installed.
        BadInput: There are no texts with terms.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingDependency("an lsa index needs scikit-learn: pip install 'research-arena[organize]'") from error
    large = len(texts) >= SMALL
    weigh: Any = TfidfVectorizer(  # its stubs know neither functions as analyzers nor float32
        analyzer=cast(Any, analyze),
        max_features=VOCABULARY,
        min_df=RARE if large else 1,
        max_df=COMMON if large else 1.0,
        sublinear_tf=True,
        dtype=cast(Any, np.float32),
    )
    try:
        matrix = weigh.fit_transform(texts)
    except ValueError as error:
        raise BadInput(f"stage lsa: {len(texts)} texts have no terms to train on ({error})") from error
    kept = min(dimensions - 1, *matrix.shape)
    with threadpool_limits(1):
        components: Any = randomized_svd(matrix, kept, n_iter=cast(Any, ITERATIONS), random_state=SEED)[2]
    vectors = np.zeros((matrix.shape[1], dimensions), np.float32)
    vectors[:, :kept] = components.T * weigh.idf_[:, None]
    return weigh.get_feature_names_out().tolist(), vectors


class LsaSpace:
    """A trained space, which turns texts into unit vectors; vectors of terms stay on disk until they are used.

    Args:
        folder: Folder with the files of the space.

    Attributes:
        dimensions: Components of a vector.
    """

    def __init__(self, folder: Path) -> None:
        names = (folder / TERMS).read_text(encoding="utf-8").splitlines()
        self._rows = {term: row for row, term in enumerate(names)}
        self._vectors: NDArray[np.float32] = np.load(folder / VECTORS, mmap_mode="r")
        self.dimensions = self._vectors.shape[1]

    @classmethod
    def open(cls, dataset: Dataset) -> "LsaSpace":
        """Opens the space of a dataset of stage `lsa`."""
        return cls(dataset.path(TERMS).parent)

    def knows(self, text: str) -> bool:
        """Returns whether any term of a text is in the space."""
        return any(term in self._rows for term in analyze(text))

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns unit vectors, `(n, dim) float32`; texts without a known term lie on the last axis, alone."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            counts = sorted((self._rows[term], n) for term, n in Counter(analyze(text)).items() if term in self._rows)
            if counts:
                places, numbers = np.array(counts).T
                row[:] = (1 + np.log(numbers, dtype=np.float32)) @ self._vectors[places]
            norm = np.linalg.norm(row)
            row[:] = row / norm if norm > 0 else np.eye(1, self.dimensions, self.dimensions - 1)
        return vectors


def _project(shard: Shard, job: _Job) -> None:
    """Writes the vectors of one bucket."""
    space = LsaSpace(job.space)
    table = embeddings_table(space.dimensions)
    texts = field_texts(job.settings.field, job.bucket)
    with TableWriter(shard.file(f"part-{shard.name}.parquet"), table) as writer:
        while chunk := list(islice(texts, CHUNK)):
            vectors = space.encode_queries([found.text for found in chunk]).astype(np.float16)
            writer.write(embedding_rows(table.arrow, chunk, text_digests(chunk), vectors))
    shard.counts.read, shard.counts.kept = job.bucket.rows, writer.rows
    if missing := shard.counts.read - shard.counts.kept:
        shard.counts.dropped[f"no_{job.settings.field}"] = missing
