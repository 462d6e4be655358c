"""How text from elsewhere is cleaned before a person, a log or a server gets it in a message.

A message is one line of bounded length, without control characters, and shows no user, password, query or fragment of a
URL. Every `ArenaError` is cleaned here, whoever raises it.
"""

import errno
import os
import re
from pathlib import Path

from schemas.secrets import redact

LONGEST = 2_000
"""Most characters of a message. What is too long loses its middle, because the remedy stands at the end."""

_CUT = " [...] "

SHOWN_ERRORS = 3
"""Wrong values that a message names; the others are counted."""

_URL = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]{0,11}://)([^\s"'<>]*[^\s"'<>).,:;\]])""")

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, start an escape sequence, break a line or turn the direction of text, and lone
surrogates, which no output can encode."""


_FREE = "free some space and run the same command again: what is finished is kept"
_RIGHTS = "choose another path, or get the right to use this one"
_NO_FOLDER = "a file or folder of that path is in the way: choose another path"

REMEDIES = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EROFS: "choose another path, or mount this one for writing",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENOTDIR: _NO_FOLDER,
    errno.EISDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.ENOENT: "check the path, and create what is missing",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its links lead to themselves: choose another path",
    errno.EIO: "the disk does not read or write: check it, then run: arena edition verify",
    errno.ESTALE: "the shared storage has lost it: mount it again",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "allow more open files on this machine",
}
"""What to do when the operating system refuses a path, by error number."""

WHOLE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a whole file system, and not of the file on which they were noticed."""


def describe_refusal(error: OSError) -> str | None:
    """Returns the path, the system's word and the remedy; None when the error is none of `REMEDIES`."""
    number = error.errno or _number_in(" ".join(map(str, error.args)))
    if number not in REMEDIES:
        return None
    said = f"{os.strerror(number)}; {REMEDIES[number]}"
    if not error.filename:
        return said
    path = Path(str(error.filename))
    return f"{path.parent if number in WHOLE_DISK and not path.is_dir() else path}: {said}"


def _number_in(text: str) -> int | None:
    """Returns the error number in the words of a library that raises an OSError without one (pyarrow)."""
    found = re.search(r"(?i)\[errno (\d+)\]", text)
    return int(found[1]) if found else None


def one_line(text: str, longest: int = LONGEST) -> str:
    """Returns a text as one line of at most `longest` characters, without control characters and queries of URLs."""
    lines = re.split(r"[\r\n]+", _shorten(hide_queries(redact(text)), 4 * longest))
    line = plain(" ".join(stripped for line in lines if (stripped := line.strip())))
    return _shorten(hide_queries(line), longest).strip()


def plain(text: str) -> str:
    """Returns a text without control characters; a line break or tab becomes a space."""
    return CONTROL.sub("", re.sub(r"[\t\r\n\u2028\u2029]", " ", text))


def hide_queries(text: str) -> str:
    """Returns a text whose URLs have no user, password, query and fragment: they may hold a key or a signature."""
    return _URL.sub(lambda found: found[1] + _bare(found[2]), text)


def describe(error: BaseException) -> str:
    """Returns what an error says, on one line; of refused values, which may be long or secret, where and why only."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return one_line(str(error))
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in found[:SHOWN_ERRORS]]
    more = [f"{len(found) - SHOWN_ERRORS} more"] if len(found) > SHOWN_ERRORS else []
    return one_line("; ".join(shown + more))


def _bare(address: str) -> str:
    host, slash, path = re.split(r"[?#]", address, maxsplit=1)[0].partition("/")
    return host.rpartition("@")[2] + slash + path


def _shorten(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = (longest - len(_CUT)) * 2 // 3
    return text[:head] + _CUT + text[len(text) - (longest - len(_CUT) - head) :]
