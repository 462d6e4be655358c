"""Names for fetched files, made from links that are not trusted."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from schemas.errors import ReleaseError

LONGEST = 120
"""Characters of a name; what is cut lies in front, so that the suffix stays."""


def link_path(url: str) -> str:
    """The part of a link that stays the same when it is renewed.

    Raises:
        ReleaseError: It is no http(s) link.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ReleaseError(f"the API gave a link that is none: {url[:80]!r} ({error})") from error
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ReleaseError(f"the API gave a link that is none: {url[:80]!r}")
    return parts.path


def name_files(paths: Iterable[str]) -> dict[str, str]:
    """A name for each of these link paths: its last part where that is a plain name of its own, else with a hash.

    Names hold ASCII letters, digits, `.`, `-` and `_` only, do not start with `.` or `-`, and are all different, also
    where case does not count.
    """
    plain = {path: _plain(path) for path in dict.fromkeys(paths)}
    often = Counter(name.lower() for name in plain.values())
    return {
        path: name if name == path.rpartition("/")[2] and often[name.lower()] == 1 else f"_{_hash(path)}-{name}"
        for path, name in plain.items()
    }


def _plain(path: str) -> str:
    last = re.split(r"[/\\]", unquote(path))[-1]
    return re.sub(r"[^A-Za-z0-9._-]", "_", last)[-LONGEST:].lstrip("._-") or "file"


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:12]
