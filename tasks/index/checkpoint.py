"""Keeps encoded texts of an unfinished bucket, so that a killed stage encodes hardly any of them again."""

import hashlib
import io
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.store.whole_files import write_whole

BLOCK = 256
"""Texts encoded between two looks at the clock; rounded to whole batches, for each device."""

DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError, KeyError, NotImplementedError)
"""What reading a damaged file of blocks may raise; every block in it has a checksum."""

KEPT_SECONDS, KEPT_TEXTS = 30.0, 4096
"""Encoded texts are written to disk after so many seconds, or so many texts, whichever comes first."""


class BlockEncoder(Protocol):
    """What encodes a block: see `tasks.index.encoder.Encoder`."""

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        ...

    @property
    def batch_size(self) -> int:
        """Number of texts encoded together."""
        ...

    @property
    def parallel(self) -> int:
        """Batches that are encoded at the same time."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns unit vectors, `(n, dim) float32`."""
        ...


class EncodedBlocks:
    """Encodes texts in blocks of similar length, and keeps each block until the bucket is finished.

    The blocks depend on the texts alone, never on what was kept: a resumed bucket gets the same batches, hence the same
    bytes, as one that nothing disturbed. A block that was damaged on disk is encoded again.

    Args:
        folder: Where blocks are kept; survives a kill.
        encoder: Encodes what was not kept.
        made_by: Describes the encoder; blocks of another one are not used.
    """

    def __init__(self, folder: Path, encoder: BlockEncoder, made_by: str) -> None:
        self._folder = folder
        self._encoder = encoder
        self._made_by = made_by
        self._kept = {key: path for path in sorted(folder.glob("*.npz")) for key in _keys(path)}
        self._waiting: dict[str, NDArray[np.float16]] = {}
        self._written = time.monotonic()
        self.restored = 0

    def encode(
        self, texts: Sequence[str], digests: Sequence[bytes], report: Callable[[int], None]
    ) -> NDArray[np.float16]:
        """Returns unit vectors, `(n, dim) float16`, in the order of `texts`.

        Args:
            texts: What to encode; the longest come first, so that a lack of memory shows at once.
            digests: Their digests.
            report: Called with the number of texts done.
        """
        vectors = np.empty((len(texts), self._encoder.dimensions), np.float16)
        order = np.argsort([-len(text) for text in texts], kind="stable")
        size = self._encoder.batch_size * max(1, BLOCK // self._encoder.batch_size) * self._encoder.parallel
        for start in range(0, len(texts), size):
            rows: list[int] = order[start : start + size].tolist()
            vectors[rows] = self._block([texts[row] for row in rows], [digests[row] for row in rows])
            report(min(start + size, len(texts)))
        return vectors

    def _block(self, texts: Sequence[str], digests: list[bytes]) -> NDArray[np.float16]:
        key = hashlib.sha256(b"".join([self._made_by.encode(), *digests])).hexdigest()[:32]
        if (kept := _read(self._kept[key], key) if key in self._kept else None) is not None:
            self.restored += len(texts)
            return kept
        self._waiting[key] = vectors = self._encoder.encode(texts).astype(np.float16)
        waited = time.monotonic() - self._written
        if waited >= KEPT_SECONDS or sum(map(len, self._waiting.values())) >= KEPT_TEXTS:
            self._write()
        return vectors

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        data = io.BytesIO()
        np.savez(data, **self._waiting)  # pyright: ignore[reportArgumentType]  its second parameter is not for names
        write_whole(self._folder / f"{next(iter(self._waiting))}.npz", data.getvalue())
        self._waiting.clear()
        self._written = time.monotonic()


def _keys(path: Path) -> list[str]:
    with suppress(*DAMAGE), np.load(path) as kept:
        return list(kept.files)
    return []


def _read(path: Path, key: str) -> NDArray[np.float16] | None:
    """Returns a block; None when its checksum does not hold."""
    with suppress(*DAMAGE), np.load(path) as kept:
        return kept[key]
    return None
