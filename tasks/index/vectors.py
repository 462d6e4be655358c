"""Vectors of documents on disk: memory-mapped, two bytes per component, decoded a block at a time.

Opening reads nothing, processes share the pages, and an index larger than memory is read from disk as it is searched.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from tasks.index.encoder import unit_rows
from tasks.store.dataset import MAIN, Dataset
from tasks.store.parquet import ParquetReader, read_table

HALF_ROUNDING = 1e-3
"""Twice the largest error of a cosine with a vector that was rounded to float16 and not normalised again."""

ROUNDING = 1e-5
"""Twice the largest error of a cosine in float32."""


class Block(NamedTuple):
    """Some rows of an index, ascending, and their vectors `(n, dim) float32`, of norm 1 within `rounding`."""

    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]


class Vectors(Protocol):
    """The vectors of an index, by row."""

    rounding: float
    """Twice the largest error of a product of a block's vector with a unit vector."""

    @property
    def size(self) -> int:
        """Number of vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        ...

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the vectors of some rows in their order, `(n, dim) float32`, as exact scores need them."""
        ...

    def blocks(self, size: int, chosen: NDArray[np.int64] | None = None) -> Iterator[Block]:
        """Yields all vectors in blocks of at most `size`; with `chosen` (ascending rows), these alone.

        The memory of a block is used again for the next one.
        """
        ...


class VectorWriter:
    """Writes vectors to a file in numpy's format, a few at a time.

    Args:
        path: File to create.
        dimensions: Components of a vector.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self._file = path.open("wb")
        self._dimensions = dimensions
        self._rows = 0
        self._write_header()

    def write(self, vectors: NDArray[np.float16]) -> None:
        """Appends vectors `(n, dim)`."""
        self._file.write(np.ascontiguousarray(vectors, "<f2").tobytes())
        self._rows += len(vectors)

    def _write_header(self) -> None:
        shape = (self._rows, self._dimensions)
        npy.write_array_header_1_0(self._file, {"descr": "<f2", "fortran_order": False, "shape": shape})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()  # of the same length: numpy leaves room for the number of rows


def vector_file(part: str) -> str:
    """Returns the name of the file with the vectors of a Parquet file of stage `embeddings`."""
    return f"{part.removesuffix('.parquet').replace(MAIN, 'vectors', 1)}.npy"


def vector_rows(column: pa.ChunkedArray) -> NDArray[np.float16]:
    """Returns a column of vectors as `(n, dim) float16`."""
    return np.concatenate(
        [np.empty((0, column.type.list_size), np.float16)]
        + [chunk.flatten().to_numpy().reshape(-1, column.type.list_size) for chunk in column.chunks]
    )


class StoredVectors:
    """The vectors of a dataset of stage `embeddings`.

    Args:
        parts: `(n, dim) float16` each, of norm 1 within float16; the rows of one follow those of another.
    """

    rounding = HALF_ROUNDING

    def __init__(self, parts: Sequence[NDArray[np.float16]]) -> None:
        self._parts = [part for part in parts if len(part)] or list(parts[:1])
        self._ends = np.cumsum([len(part) for part in self._parts])

    @classmethod
    def open(cls, embeddings: Dataset) -> Self:
        """Maps the vectors; those of a dataset that was made without files of vectors are read from Parquet."""
        names = {entry.path for entry in embeddings.manifest.files}
        return cls([_open_part(path, vector_file(path.name) in names) for path in embeddings.files()])

    @property
    def size(self) -> int:
        """Number of vectors."""
        return int(self._ends[-1])

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        return self._parts[0].shape[1]

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns unit vectors of some rows in their order, `(n, dim) float32`."""
        found = np.empty((len(rows), self.dimensions), np.float16)
        places = np.searchsorted(self._ends, rows, side="right")
        for place in np.unique(places).tolist():
            wanted = places == place
            found[wanted] = self._parts[place][rows[wanted] - self._start(place)]
        return unit_rows(found.astype(np.float32))

    def blocks(self, size: int, chosen: NDArray[np.int64] | None = None) -> Iterator[Block]:
        """Yields the vectors as they are stored, see `Vectors`."""
        decoded = np.empty((min(size, self.size), self.dimensions), np.float32)
        for place, part in enumerate(self._parts):
            start, end = self._start(place), int(self._ends[place])
            within = None if chosen is None else chosen[slice(*np.searchsorted(chosen, (start, end)))]
            for first in range(0, len(part) if within is None else len(within), size):
                if within is None:
                    rows, stored = np.arange(start + first, min(start + first + size, end)), part[first : first + size]
                else:
                    rows = within[first : first + size]
                    stored = part[rows - start]
                yield Block(rows, _decode(stored, decoded[: len(rows)]))

    def _start(self, place: int) -> int:
        return int(self._ends[place]) - len(self._parts[place])


def read_ids(embeddings: Dataset) -> NDArray[np.int64]:
    """Returns the corpus_id of every vector, in the order of the rows of `StoredVectors`."""
    found = [read_table(path, ["corpus_id"])["corpus_id"].to_numpy() for path in embeddings.files()]
    return np.concatenate([np.empty(0, np.int64), *found])


def _open_part(path: Path, mapped: bool) -> NDArray[np.float16]:
    with ParquetReader(path) as file:
        rows, width = file.metadata.num_rows, file.schema_arrow.field("vector").type.list_size
        if mapped and rows:  # a page that is written to is copied, so the file never changes; torch takes no other map
            return np.load(path.with_name(vector_file(path.name)), mmap_mode="c")
        return vector_rows(file.read(columns=["vector"])["vector"]).reshape(rows, width)


@cache
def _torch() -> Any:
    """Returns PyTorch, which decodes float16 ten times as fast as numpy, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def multiply(queries: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the products of all queries `(m, dim)` with all vectors `(n, dim)`, `(m, n) float32`.

    PyTorch's threads sleep while they wait. Those of numpy's OpenBLAS spin between two products, which took three times
    the processor time. Vectors times queries is the faster order: for 32 queries two thirds of the time.
    """
    if (torch := _torch()) is None:
        return queries @ vectors.T
    return torch.mm(torch.from_numpy(vectors), torch.from_numpy(queries).T).T.contiguous().numpy()


def _decode(stored: NDArray[np.float16], out: NDArray[np.float32]) -> NDArray[np.float32]:
    if (torch := _torch()) is None:
        np.copyto(out, stored)
    else:
        torch.from_numpy(out).copy_(torch.from_numpy(np.asarray(stored)))
    return out
