"""The secrets of this process by value, and how they are cut out of whatever comes from outside.

Services repeat keys in error messages, and models repeat what they were told. Every door through which bytes come in
(model endpoints, the HTTP client) cuts known secrets out before anything is kept, shown or logged.
"""

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pydantic import SecretStr

LEAST = 12
"""Characters of the shortest secret; a shorter word (local servers accept any) would be cut out of ordinary text."""

MARK = "[API key]"
_MARK = MARK.encode()

_written: dict[str, bytes] = {}


def learn(*secrets: "SecretStr | str | None") -> None:
    """Remembers secrets, as they are and as JSON and URLs write them."""
    for given in secrets:
        secret = (given if isinstance(given, str) else given.get_secret_value() if given else "").strip()
        if len(secret) >= LEAST:
            escaped = json.dumps(secret)[1:-1]
            for form in (secret, escaped, escaped.replace("/", "\\/"), quote(secret, safe=""), quote(secret)):
                _written[form] = form.encode()
    for form in sorted(_written, key=len, reverse=True):  # a secret may begin with another one
        _written[form] = _written.pop(form)


def redact(text: str) -> str:
    """Returns a text without the secrets."""
    for form in tuple(_written):
        text = text.replace(form, MARK)
    return text


def redact_bytes(data: bytes) -> bytes:
    """Returns bytes without the secrets."""
    for form in tuple(_written.values()):
        data = data.replace(form, _MARK)
    return data
