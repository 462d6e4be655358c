"""Checks a picture's file by its first bytes and its header, without decoding it."""

import io
import warnings
from typing import NamedTuple

import PIL.Image

from schemas.errors import BadInput
from schemas.llm import Image
from tasks.llm.images import MAX_BYTES, read_image

MAX_PIXELS = 64_000_000
"""Most pixels of a picture, by its header: a small file may decode to gigabytes."""

MAX_SIDE = 30_000
"""Most pixels of a picture's longer side."""


class Checked(NamedTuple):
    """A picture that can be stored, sent and shown, with its size in pixels."""

    image: Image
    width: int
    height: int


def check_picture(data: bytes) -> Checked:
    """Checks a picture's file.

    Raises:
        BadInput: The reason in one word: `too_large`, `no_image` (not PNG, JPEG, GIF or WebP), `damaged`,
            `too_many_pixels`.
    """
    if len(data) > MAX_BYTES:
        raise BadInput("too_large")
    try:
        image = read_image(data, "of a figure")
    except BadInput as error:
        raise BadInput("no_image") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            with PIL.Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
                width, height = opened.size
    except PIL.Image.DecompressionBombError as error:
        raise BadInput("too_many_pixels") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise BadInput("damaged") from error
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        raise BadInput("too_many_pixels")
    return Checked(image, width, height)
