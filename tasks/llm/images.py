"""Checks pictures before they are put into messages."""

from schemas.errors import BadInput
from schemas.llm import Image, ImageType

MAX_BYTES = 10 * 2**20
"""Largest picture that is sent, in bytes; endpoints refuse larger ones, and a request is held in memory."""

_SIGNATURES: tuple[tuple[bytes, int, ImageType], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
)


def read_image(data: bytes, name: str) -> Image:
    """Returns a picture for a message; its type is read from its first bytes, never from a file name.

    Args:
        data: Content of the picture's file.
        name: What to call it in an error.

    Raises:
        BadInput: It is empty, too large, or not a PNG, JPEG, GIF or WebP file.
    """
    if not 0 < len(data) <= MAX_BYTES:
        raise BadInput(f"picture {name}: {len(data)} bytes, expected 1 to {MAX_BYTES}; scale it down")
    for signature, place, media_type in _SIGNATURES:
        if data.startswith(signature, place):
            return Image(media_type=media_type, data=data)
    raise BadInput(f"picture {name}: not a PNG, JPEG, GIF or WebP file (it begins with {data[:8]!r}); convert it")
