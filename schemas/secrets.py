"""The secrets of this process by value, and how they are cut out of whatever comes from outside.

Services repeat keys in error messages, and models repeat what they were told. Every door through which bytes come in
(model endpoints, the HTTP client) cuts known secrets out before anything is kept, shown or logged.
"""

import json
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pydantic import SecretStr

LEAST = 12
"""Characters of the shortest secret; a shorter word (local servers accept any) would be cut out of ordinary text."""

MARK = "[API key]"
_MARK = MARK.encode()

_written: dict[str, bytes] = {}
"""Secrets as they may be written, the longest first: one may begin with another. Replaced whole: threads read it."""

_learning = Lock()


def learn(*secrets: "SecretStr | str | None") -> None:
    """Remembers secrets, as they are and as JSON and URLs write them."""
    global _written
    with _learning:
        found = dict(_written)
        for given in secrets:
            secret = (given if isinstance(given, str) else given.get_secret_value() if given else "").strip()
            if len(secret) >= LEAST:
                escaped = json.dumps(secret)[1:-1]
                for form in (secret, escaped, escaped.replace("/", "\\/"), quote(secret, safe=""), quote(secret)):
                    found[form] = form.encode()
        _written = {form: found[form] for form in sorted(found, key=len, reverse=True)}


def redact(text: str) -> str:
    """Returns a text without the secrets."""
    for form in _written:
        text = text.replace(form, MARK)
    return text


def redact_bytes(data: bytes) -> bytes:
    """Returns bytes without the secrets."""
    for form in _written.values():
        data = data.replace(form, _MARK)
    return data
