"""Pictures and folders of figures that a test makes."""

import io
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from schemas.release import ReleaseDataset
from tasks.release.mirror import open_figures


def png(width: int = 4, height: int = 3, kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(data, kind)
    return data.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of some hundred bytes whose header promises any size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rest = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + rest


def entry(picture: str, caption: str | None = "A caption", **more: Any) -> dict[str, Any]:
    return {"renderURL": picture, "caption": caption, "figType": "Figure", "page": 1, **more}


def folder(path: Path, lists: Mapping[int, Sequence[Any] | bytes], pictures: Mapping[str, bytes]) -> ReleaseDataset:
    for inside in ("data", "img"):
        (path / inside).mkdir(parents=True, exist_ok=True)
    for corpus_id, told in lists.items():
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        (path / "data" / f"{corpus_id}.json").write_bytes(data)
    for name, data in pictures.items():
        (path / "img" / name).write_bytes(data)
    return open_figures(path, "2026-01-06", path.parent / "fingerprints.json")
