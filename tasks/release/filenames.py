"""Safe names for fetched files, made from untrusted links."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from schemas.errors import ReleaseError
from tasks.http.client import bare_url

LONGEST = 120
"""Most characters of a name; the front is cut, so that the suffix stays."""


def link_path(url: str) -> str:
    """Returns the part of a link that stays the same when the link is renewed.

    Raises:
        ReleaseError: It is not an http(s) link.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ReleaseError(
            f"the API gave an unusable link: {bare_url(url)[:80]!r} ({error}); try again later"
        ) from error
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ReleaseError(f"the API gave an unusable link: {bare_url(url)[:80]!r}; try again later")
    return parts.path


def name_files(paths: Iterable[str]) -> dict[str, str]:
    """Returns a name for each link path: its last part when that is plain and unique, else with a hash.

    Names hold only ASCII letters, digits, `.`, `-` and `_`, do not start with `.` or `-`, and differ even when case is
    ignored.
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
