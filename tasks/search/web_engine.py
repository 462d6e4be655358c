"""Asking services on the web politely: pauses between requests, patience with busy ones, replies remembered."""

import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

import httpx
import orjson
from pydantic import Field

from schemas.errors import BadInput, TransientError
from schemas.llm import RetrySettings
from schemas.settings import Settings
from tasks.llm.retry import BUSY, retry_after_s, wait_s

log = logging.getLogger(__name__)

logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs whole addresses, with keys in them


class WebLimits(Settings):
    """How patiently a service is asked."""

    retry: RetrySettings = RetrySettings(tries=5, base_s=2.0, cap_s=120.0, timeout_s=60.0)
    max_bytes: int = Field(default=32 * 2**20, ge=1024, description="A longer reply is refused.")


class Question(NamedTuple):
    """A request as it is remembered: what decides the answer, and nothing that is secret."""

    method: str
    url: str
    parameters: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def key(self) -> str:
        """Digest under which the reply is remembered."""
        return hashlib.sha256(orjson.dumps([self.method, self.url, self.parameters, self.body.hex()])).hexdigest()


class Remembered(NamedTuple):
    """A reply by its question, as the table `web_replies` has it."""

    key: str
    question: str
    body: bytes
    asked_at: str


class WebClient:
    """A client for one service, used by one thread at a time.

    Args:
        limits: Patience.
        interval_s: Least seconds between the starts of two requests.
        known: Replies by question key, of earlier runs; the same question is not sent again.
        mailto: Address that a service may write to; part of the user agent.
        sleep: Waits so many seconds.

    Attributes:
        replies: Every reply used so far, remembered ones too.
        sent: Number of requests that were sent.
    """

    def __init__(
        self,
        limits: WebLimits,
        interval_s: float = 0.0,
        known: Mapping[str, Remembered] | None = None,
        *,
        mailto: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limits = limits
        self._interval_s = interval_s
        self._known = known or {}
        self._sleep = sleep
        self._last = float("-inf")
        self._jitter = random.Random()  # noqa: S311
        self._client = httpx.Client(
            timeout=httpx.Timeout(limits.retry.timeout_s, connect=limits.retry.connect_timeout_s),
            headers={"user-agent": "research-arena" + (f" (mailto:{mailto})" if mailto else "")},
            follow_redirects=False,  # a redirect would carry keys to wherever it points
        )
        self.replies: list[Remembered] = []
        self.sent = 0

    def ask(
        self, question: Question, *, headers: Mapping[str, str] | None = None, hidden: Mapping[str, str] | None = None
    ) -> bytes:
        """The body of the reply to a question; remembered ones are not asked again.

        Args:
            question: What is asked.
            headers: Sent along, not remembered: keys.
            hidden: Parameters that are sent along and not remembered: keys, an address to write to.

        Raises:
            TransientError: The service was busy or out of reach, at every try.
            BadInput: It refused the question, or its answer is too long.
        """
        found = self._known.get(question.key) or self._ask(question, dict(headers or {}), dict(hidden or {}))
        self.replies.append(found)
        return found.body

    def ask_json(self, question: Question, **along: Any) -> dict[str, Any]:
        """As `ask`, the reply read as a JSON object.

        Raises:
            BadInput: The reply is no JSON object.
        """
        body = self.ask(question, **along)
        try:
            read = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise BadInput(f"{question.url}: the reply is not JSON ({error}): {_shown(body)}") from error
        if not isinstance(read, dict):
            raise BadInput(f"{question.url}: the reply is not a JSON object: {_shown(body)}")
        return read

    def _ask(self, question: Question, headers: dict[str, str], hidden: dict[str, str]) -> Remembered:
        retry, trouble = self._limits.retry, ""
        secrets = [word for value in (*headers.values(), *hidden.values()) for word in value.split()]
        for tries in range(1, retry.tries + 1):
            self._pause()
            asked_s: float | None = None
            try:
                status, replied, body = self._send(question, headers, hidden)
                if status < 300:
                    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    return Remembered(question.key, _described(question), body, moment)
                trouble = f"HTTP {status}: {_shown(body, secrets)}"
                if status not in BUSY:
                    raise BadInput(f"{question.url}: {trouble}")
                asked_s = retry_after_s(replied)
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
            if tries < retry.tries:
                pause = wait_s(retry, tries, asked_s, self._jitter)
                log.info("%s: %s; again in %.1f s", question.url, trouble, pause)
                self._sleep(pause)
        raise TransientError(f"{question.url}: {trouble} (tries: {retry.tries}); run it again later")

    def _send(
        self, question: Question, headers: dict[str, str], hidden: dict[str, str]
    ) -> tuple[int, httpx.Headers, bytes]:
        self.sent += 1
        sent = self._client.stream(
            question.method,
            question.url,
            params=[*question.parameters, *hidden.items()] or None,
            content=question.body or None,
            headers=headers,
        )
        ends = time.monotonic() + self._limits.retry.timeout_s
        with sent as response:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > self._limits.max_bytes:
                    raise BadInput(f"{question.url}: the reply is longer than {self._limits.max_bytes:,} bytes")
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout(f"the reply took longer than {self._limits.retry.timeout_s:g} s")
            return response.status_code, response.headers, bytes(body)

    def _pause(self) -> None:
        wait = self._last + self._interval_s - time.monotonic()
        if wait > 0:
            self._sleep(wait)
        self._last = time.monotonic()

    def close(self) -> None:
        """Closes connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def text_of(value: Any) -> str:
    """A text of a foreign reply: a string, else nothing."""
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> float | None:
    """A number of a foreign reply; None for anything else."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool | str | bytes):
            return float(value)
    return None


def objects_of(value: Any, what: str) -> list[dict[str, Any]]:
    """A list of objects of a foreign reply; none for null.

    Raises:
        BadInput: It is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadInput(f"{what}: a list of objects was expected")
    return value


def _described(question: Question) -> str:
    return str(httpx.URL(question.url, params=list(question.parameters))) + (
        f" {question.body.decode('utf-8', 'replace')}" if question.body else ""
    )


def _shown(body: bytes, secrets: Iterable[str] = ()) -> str:
    text = body[:1000].decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "***")
    return " ".join(text.split())[:200]
