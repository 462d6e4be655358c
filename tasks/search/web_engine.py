"""A client for search services on the web that remembers replies, and readers for what services send."""

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
from pydantic import Field

from schemas.errors import BadInput
from schemas.json import JsonObject
from schemas.llm_settings import RetrySettings
from schemas.settings import Settings
from schemas.tables.search_results import WebReplyRow
from tasks.http.client import HttpClient, HttpRequest, HttpSettings, bare_url, excerpt, full_url
from tasks.http.pace import OwnPace


class WebLimits(Settings):
    """How patiently a service is asked."""

    retry: RetrySettings = RetrySettings(tries=5, base_s=2.0, cap_s=120.0, timeout_s=60.0)
    patience_s: float = Field(default=300.0, gt=0, description="Longest time that a service is tried for one query.")
    max_bytes: int = Field(default=32 * 2**20, ge=1024, description="A longer reply is refused.")


class WebClient:
    """A client for one service, used by one thread at a time.

    Args:
        limits: How patiently the service is asked.
        interval_s: Least seconds between the starts of two requests.
        known: Replies of earlier runs by request key; the same request is not sent again.
        mailto: Address that a service may write to; part of the user agent.
        sleep: Waits that many seconds.

    Attributes:
        replies: Every reply used so far, remembered ones included.
    """

    def __init__(
        self,
        limits: WebLimits,
        interval_s: float = 0.0,
        known: Mapping[str, WebReplyRow] | None = None,
        *,
        mailto: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._max_bytes = limits.max_bytes
        self._known = known or {}
        settings = HttpSettings.of(limits.retry)
        settings = replace(
            settings,
            rules=settings.rules._replace(patience_s=limits.patience_s),
            timeout_s=min(settings.timeout_s, limits.patience_s),
            deadline_s=min(settings.deadline_s, limits.patience_s),
            user_agent=settings.user_agent + (f" (mailto:{mailto})" if mailto else ""),
        )
        self._http = HttpClient(settings, OwnPace(interval_s, sleep), sleep)
        self.replies: list[WebReplyRow] = []

    def ask(self, request: HttpRequest) -> bytes:
        """Returns the body of the reply to a request; a remembered reply is not asked for again.

        Args:
            request: What to send. Its headers and hidden parameters are not remembered.

        Raises:
            TransientError: The service was busy or out of reach at every try.
            BadInput: It refused the request, or its reply is too long.
        """
        key = request_key(request)
        found = self._known.get(key) or self._ask(key, request)
        self.replies.append(found)
        return found.body

    def ask_json(self, request: HttpRequest) -> JsonObject:
        """Returns the reply as a JSON object; otherwise as `ask`.

        Raises:
            BadInput: The reply is not a JSON object.
        """
        body = self.ask(request)
        where, said = bare_url(request.url), excerpt(body[:1000].decode("utf-8", "replace"))
        try:
            read = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise BadInput(f"{where}: the reply is not JSON ({error}): {said}") from error
        if not isinstance(read, dict):
            raise BadInput(f"{where}: the reply is not a JSON object: {said}")
        return read

    def _ask(self, key: str, request: HttpRequest) -> WebReplyRow:
        reply = self._http.send(request, self._max_bytes)
        if reply.trouble:
            raise BadInput(f"{bare_url(request.url)}: {reply.trouble}")
        described = full_url(request.url, request.parameters)
        if request.body:
            described += f" {request.body.decode('utf-8', 'replace')}"
        return WebReplyRow(key, described, reply.body, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def close(self) -> None:
        """Closes connections."""
        self._http.close()


def request_key(request: HttpRequest) -> str:
    """Returns the digest under which the reply to a request is remembered: of what decides the reply, without keys."""
    decides = [request.method, request.url, request.parameters, request.body.hex()]
    return hashlib.sha256(orjson.dumps(decides)).hexdigest()


def text_of(value: Any) -> str:
    """Returns a text of a service's reply; empty when it is not a string."""
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> float | None:
    """Returns a number of a service's reply; None when it is not a number."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool | str | bytes):
            return float(value)
    return None


def objects_of(value: Any, what: str) -> list[JsonObject]:
    """Returns a list of objects of a service's reply; none for null.

    Raises:
        BadInput: It is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadInput(f"{what}: expected a list of objects")
    return value
