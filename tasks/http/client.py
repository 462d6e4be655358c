"""The client that every outgoing HTTP request goes through, those to language models aside."""

import logging
import re
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import parse_qsl

import httpx

from schemas.errors import BadInput, TransientError
from schemas.llm_settings import RetrySettings
from schemas.secrets import learn, redact_bytes
from tasks.http.network import StoppableBackend, head_within
from tasks.http.pace import Pace
from tasks.http.retry import Busy, RetryRules, is_busy, persist, retry_after_s
from tasks.http.stop import pause

logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs whole URLs, with keys and signatures in them

CHUNK = 64 * 1024
"""Bytes that are unpacked at a time."""

_KEY_HEADERS = ("authorization", "x-api-key")

MAX_ERROR_BODY = 1000
"""Bytes of an error's body that are read."""


class BadAddress(BadInput):
    """A URL cannot be asked: malformed, of another protocol, or redirected too often."""


class TooLong(BadInput):
    """A body is longer than the caller reads."""


@dataclass(frozen=True)
class HttpSettings:
    """How a server is asked.

    Attributes:
        rules: When a request is tried again.
        timeout_s: Longest wait for the next byte, in seconds.
        connect_timeout_s: Longest time to open a connection, in seconds.
        deadline_s: Longest time for the head of a reply, and for the whole body that `HttpClient.send` reads, in
            seconds.
        max_redirects: Redirects followed for one request. A redirect takes headers along to wherever it points: none
            where a request carries a key.
        redirect_hosts: Hosts that a redirect may lead to; None: any.
        user_agent: What we call ourselves.
        remedy: What a person can do when every try failed.
    """

    rules: RetryRules
    timeout_s: float
    connect_timeout_s: float
    deadline_s: float
    max_redirects: int = 0
    redirect_hosts: frozenset[str] | None = None
    user_agent: str = "research-arena"
    remedy: str = "run it again later"

    @classmethod
    def of(cls, retry: RetrySettings) -> "HttpSettings":
        """Returns the settings of a client that tries as `retry` says."""
        return cls(RetryRules.of(retry), retry.timeout_s, retry.connect_timeout_s, retry.timeout_s)


class HttpRequest(NamedTuple):
    """A request. The values of `headers` and `hidden` may be secret: no message repeats them."""

    url: str
    method: str = "GET"
    parameters: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    headers: Mapping[str, str] = {}
    hidden: tuple[tuple[str, str], ...] = ()


class Incoming(NamedTuple):
    """The head of a reply, and its body as it arrives, still packed."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


class Reply(NamedTuple):
    """A reply with its body; `trouble` says what is wrong, in one line, and is empty for a success."""

    status: int
    body: bytes
    trouble: str = ""


class HttpClient:
    """Sends requests; can be shared by threads.

    Args:
        settings: How the server is asked.
        pace: Keeps requests apart; None: they are not kept apart.
        sleep: Waits that many seconds between two tries, or less when the work is called off.

    Attributes:
        retrying: Repeats a function while it raises TransientError; for callers that use `open`.
    """

    def __init__(
        self, settings: HttpSettings, pace: Pace | None = None, sleep: Callable[[float], object] = pause
    ) -> None:
        self._settings, self._pace = settings, pace
        self.retrying = persist(settings.rules, settings.remedy, sleep)
        self._client = httpx.Client(
            headers={"user-agent": settings.user_agent, "accept-encoding": "gzip"},
            timeout=httpx.Timeout(settings.timeout_s, connect=settings.connect_timeout_s),
        )
        for transport in (self._client._transport, *self._client._mounts.values()):  # pyright: ignore[reportPrivateUsage]
            if isinstance(transport, httpx.HTTPTransport):  # httpx has no public way to choose how connections are read
                transport._pool._network_backend = StoppableBackend()  # pyright: ignore[reportPrivateUsage]

    def send(self, request: HttpRequest, limit: int) -> Reply:
        """Sends a request, again while that may help, and reads the reply's body; known secrets are cut out of it.

        Args:
            request: What to send.
            limit: Longest body, in bytes after unpacking. Of an error's body the beginning is read.

        Raises:
            TransientError: The server was busy or out of reach at every try.
            BadAddress: The URL cannot be asked.
            TooLong: The body is longer than `limit`.
        """
        hidden = (value for name, value in request.hidden if "key" in name.lower())
        learn(*hidden, *(word for name in _KEY_HEADERS for word in request.headers.get(name, "").split()))
        return self.retrying(self._send, request, limit)

    def _send(self, request: HttpRequest, limit: int) -> Reply:
        with self.open(request) as reply:
            if not 200 <= reply.status < 300:
                return Reply(reply.status, b"", self._describe(request, reply))
            body = self._read(reply, limit)
            if len(body) > limit:
                raise TooLong(f"{bare_url(request.url)}: the body is longer than {limit:,} bytes; check the address")
            return Reply(reply.status, redact_bytes(body))

    @contextmanager
    def open(self, request: HttpRequest) -> Generator[Incoming]:
        """Makes one try of a request and gives the reply while its body arrives.

        Raises:
            Busy: The server asks to come back later; every user of the pace is held as long as it asks.
            TransientError: It cannot be reached, or the connection breaks, also while the body is read.
            BadAddress: The URL cannot be asked.
        """
        if self._pace:
            self._pace.wait()
        where = bare_url(request.url)
        try:
            with closing(self._follow(request)) as response:
                reply = Incoming(response.status_code, response.headers, response.iter_raw())
                if is_busy(reply.status):
                    raise self._busy(where, request, reply)
                yield reply
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise BadAddress(f"{where}: cannot be asked ({_masked(str(error), request)})") from error
        except httpx.RequestError as error:
            told = excerpt(_masked(f"{type(error).__name__}: {error}", request))
            unreachable = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            what = "cannot be reached" if unreachable else "no complete reply"
            raise TransientError(f"{where}: {what} ({told})") from error

    def _follow(self, request: HttpRequest) -> httpx.Response:
        """Returns the response, its body unread, after the allowed redirects, whose bodies are not read either."""
        asked = self._client.build_request(
            request.method,
            request.url,
            params=(*request.parameters, *request.hidden) or None,
            content=request.body or None,
            headers=dict(request.headers),
        )
        left = self._settings.max_redirects
        while True:
            with head_within(self._settings.deadline_s):
                response = self._client.send(asked, stream=True)
            if response.next_request is None or not self._settings.max_redirects:
                return response
            response.close()
            asked, hosts = response.next_request, self._settings.redirect_hosts
            if hosts is not None and asked.url.host not in hosts:
                raise httpx.TooManyRedirects(f"redirected to {excerpt(asked.url.host)}, which is not an allowed host")
            left -= 1
            if left < 0:
                raise httpx.TooManyRedirects(f"redirected more than {self._settings.max_redirects} times")

    def _busy(self, where: str, request: HttpRequest, reply: Incoming) -> Busy:
        after_s = retry_after_s(reply.headers)
        if after_s and self._pace:
            self._pace.hold(min(after_s, self._settings.rules.asked_cap_s))
        return Busy(f"{where}: {self._describe(request, reply)}", after_s)

    def _describe(self, request: HttpRequest, reply: Incoming) -> str:
        try:
            body = self._read(reply, MAX_ERROR_BODY)
        except httpx.DecodingError:
            body = b""
        said = excerpt(_masked(redact_bytes(body).decode("utf-8", "replace"), request))
        return f"HTTP {reply.status}: {said}" if said else f"HTTP {reply.status}"

    def _read(self, reply: Incoming, limit: int) -> bytes:
        """Reads and unpacks a body; one byte more than `limit` shows that it is too long."""
        deadline_s = self._settings.deadline_s
        ends = time.monotonic() + deadline_s
        body = bytearray()
        for chunk in _unpack(reply, limit):
            body += chunk
            if len(body) > limit:
                break
            if time.monotonic() > ends:
                raise httpx.ReadTimeout(f"the body took longer than {deadline_s:g} s")
        return bytes(body[: limit + 1])

    def close(self) -> None:
        """Closes connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_QUERY = re.compile(r"(?<=[^\s?])\?[^\s\"'<>]*=[^\s\"'<>]*")
"""The query of an address in a text."""


def bare_url(url: str) -> str:
    """Returns a URL for messages: without user, password, query and fragment, which may be secret."""
    return re.sub(r"(?<=//)[^/?#]*@|[?#].*", "", url, flags=re.DOTALL)


def full_url(url: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Returns a URL with these parameters, encoded, as its query."""
    return str(httpx.URL(url, params=list(parameters)))


def excerpt(text: str) -> str:
    """Returns the beginning of a text in one line."""
    return " ".join(text[:1000].split())[:200]


def _masked(text: str, request: HttpRequest) -> str:
    """Removes secrets that a server or a library may repeat: values of headers and hidden parameters, and queries."""
    secrets = [secret for value in request.headers.values() for secret in value.split()]
    secrets += [value for _, value in request.hidden]
    secrets += [value for _, value in parse_qsl(request.url.partition("?")[2]) if len(value) > 5]
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return _QUERY.sub("?***", text)


def _unpack(reply: Incoming, limit: int) -> Iterator[bytes]:
    """Yields a body unpacked, piece by piece: a few packed bytes could unpack to any size, and many to none."""
    packing = reply.headers.get("content-encoding", "identity").strip().lower()
    if packing == "identity":
        yield from reply.chunks
        return
    if packing not in ("gzip", "x-gzip"):
        raise httpx.DecodingError(f"the body is packed as {packing[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    room = limit + CHUNK
    try:
        for chunk in reply.chunks:
            packed = chunk
            while packed:
                yield unpacker.decompress(packed, CHUNK)
                packed = unpacker.unconsumed_tail
            room -= len(chunk)
            if unpacker.eof or room < 0:
                break
    except zlib.error as error:
        raise httpx.DecodingError(f"the body is no gzip ({error})") from error
    if not unpacker.eof:
        raise httpx.DecodingError("the gzip body ends too early" if room >= 0 else "the gzip body holds almost nothing")
