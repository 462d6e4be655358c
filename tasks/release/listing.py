"""Lists folders of a mirror without passing over anything in silence.

Hidden entries are the business of other programs. Of the rest, what has a well-known name such as `README` is a note,
and what should be a file but cannot be read is an error.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from schemas.errors import ReleaseError

SHOWN = 5
"""Entries that a message names."""

_KNOWN = re.compile(
    r"(readme|licen[cs]e|notice|changelog|manifest|checksums?|(md5|sha\d+)(sums?)?|_success)(\.\w{1,8})?", re.IGNORECASE
)


class Listing(NamedTuple):
    """The files of a folder, sorted by name, and its other entries: those with well-known names, and the rest.

    Both kinds of other entries are `<path> (<what it is>)`.
    """

    files: list[Path]
    notes: list[str]
    errors: list[str]


def list_folder(folder: Path, folders: Sequence[str] = ()) -> Listing:
    """Lists a folder that holds files only.

    Args:
        folder: The folder; when it does not exist, it is empty.
        folders: Names of folders that it may also hold; they are left out.
    """
    found = Listing([], [], [])
    for path in list_entries(folder):
        if path.name.startswith(".") or (path.name in folders and path.is_dir()):
            continue
        if _KNOWN.fullmatch(path.name):
            found.notes.append(f"{path} (not data)")
        elif trouble := find_trouble(path):
            found.errors.append(f"{path} ({trouble})")
        else:
            found.files.append(path)
    return found


def list_entries(folder: Path) -> list[Path]:
    """Returns all entries of a folder, sorted by name; none when there is no such folder.

    Raises:
        ReleaseError: The folder cannot be read.
    """
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ReleaseError(f"{folder}: cannot be read ({error.strerror}); make it readable") from error


def find_trouble(path: Path) -> str | None:
    """Returns why a path cannot be read as a file, in words for messages; None when it can."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return "a link to nothing" if path.is_symlink() else str(error.strerror)
    if S_ISDIR(mode):
        return "a folder where a file is expected"
    if not S_ISREG(mode):
        return "neither file nor folder"
    return None if os.access(path, os.R_OK) else "not readable for this user"


def refuse(errors: Sequence[str]) -> None:
    """Raises ReleaseError when there are entries that cannot be read."""
    if errors:
        raise ReleaseError(
            f"{len(errors)} entries of the mirror cannot be read: {shorten(errors)}; repair them or move them away "
            "(files belong directly into the folder of their dataset)"
        )


def shorten(entries: Iterable[str]) -> str:
    """Returns the first entries of a list in one line, with the number of the others."""
    entries = list(entries)
    more = f", and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return ", ".join(entries[:SHOWN]) + more
