"""Small files that appear completely or not at all; records among them show whether a bit of them has changed since."""

import hashlib
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from schemas.errors import StoreError
from schemas.messages import describe

DRAFT = re.compile(r"\.[0-9a-f]{32}\.draft")
"""Name of a file that is being written; one that stays was left by a process that was killed."""

COPY = ".copy"
"""Suffix of the copy of a record."""

_SEAL = re.compile(rb',\n "seal": "([0-9a-f]{64})"\n\}\Z')
R = TypeVar("R", bound=BaseModel)

log = logging.getLogger(__name__)


def fsync_path(path: Path) -> None:
    """Flushes a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file completely or not at all, even when the machine crashes; any number of processes may do so at once.

    Raises:
        OSError: The file cannot be written; there is no draft left and the old file is untouched.
    """
    draft = path.with_name(f".{uuid4().hex}.draft")
    try:
        draft.write_bytes(data)
        fsync_path(draft)
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
    fsync_path(path.parent)


def write_record(path: Path, record: BaseModel, *, copied: bool = False) -> None:
    """Writes a record as JSON with a seal, the sha256 of the rest, as its last field.

    With `copied`, for what nothing else can restore, a copy (`.copy`) lies beside it, which `read_record` restores.
    """
    text = record.model_dump_json(indent=1).encode()
    text = text.removesuffix(b"\n}") + f',\n "seal": "{hashlib.sha256(text).hexdigest()}"\n}}'.encode()
    write_whole(path, text)
    if copied:
        write_whole(path.with_suffix(COPY), text)


def read_record(path: Path, kind: type[R], remedy: str) -> R:
    """Returns the record in a file; one without a seal was written by an older version.

    Args:
        path: The file.
        kind: Type of the record; it forbids fields that it does not know.
        remedy: What to do when the file is damaged; ends the message.

    Raises:
        StoreError: The file cannot be read, holds something else, or was changed after it was written; so is its copy,
            or there is none.
    """
    copy = path.with_suffix(COPY)
    try:
        return _read(path, kind, remedy)
    except StoreError as error:
        if not (path.exists() and copy.exists()):
            raise
        found = _read(copy, kind, remedy)
        log.warning("%s; restored from %s", error, copy.name)
        with suppress(OSError):
            write_whole(path, copy.read_bytes())
        return found


def _read(path: Path, kind: type[R], remedy: str) -> R:
    try:
        text = path.read_bytes()
        if seal := _SEAL.search(text):
            text = text[: seal.start()] + b"\n}"
            if hashlib.sha256(text).hexdigest() != seal[1].decode():
                raise StoreError(f"{path}: is damaged (its content does not have the sha256 of its seal); {remedy}")
        return kind.model_validate_json(text)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except ValidationError as error:
        raise StoreError(f"{path}: is damaged ({describe(error)}); {remedy}") from error
