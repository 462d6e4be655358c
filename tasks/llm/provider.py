"""The last layer of the door: sends one HTTP request to an OpenAI-compatible endpoint.

Calls go through aiohttp, which at 512 in flight is several times faster than the `openai` package's client. No reply,
not even an error, can fill the memory. The package is used for the batch service alone (`tasks.llm.batch_service`):
importing it takes as long as hundreds of calls.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson
from pydantic import SecretStr

from schemas.errors import BadInput, MissingDependency, TransientError
from schemas.llm_profile import PLAIN, ModelProfile
from schemas.llm_settings import LlmSettings
from schemas.secrets import learn, redact, redact_bytes
from tasks.http.retry import is_busy, retry_after_s
from tasks.llm.exchange import SendResult
from tasks.llm.gate import read_quotas, wait_of
from tasks.llm.wire import read_completion

try:
    import aiohttp
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingDependency("language models need aiohttp: pip install 'research-arena[llm]'") from error

CHUNK = 64 * 1024
"""Bytes of a body that are read at a time."""

LIMITED = (429, 529)
"""Statuses by which an endpoint turns calls away because of its limits."""

LIMITED_WITH_A_TIME = (402, 503)
"""Statuses that mean the same when a header says how long to wait; 402: OpenRouter's budget of calls in flight."""

CONFLICT = 409
"""Status of a request that met another one at the endpoint; it passes."""

REFUSAL_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "content_moderation",
        "moderation_blocked",
        "data_inspection_failed",
        "datainspectionfailed",
    }
)
"""Codes by which endpoints say that they do not answer this prompt, in lower case."""

_MODERATED = re.compile(
    r"moderat|was flagged|content (?:policy|filter|management policy)|content exists risk|safety system", re.IGNORECASE
)

_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|maximum model length|prompt is too long|input is too long|input token count|"
    r"reduce the length of the messages",
    re.IGNORECASE,
)
"""Words by which endpoints say that a request does not fit into the model's context."""


_RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


class Received(NamedTuple):
    """A reply: its body up to the limit, and whether there was more."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    too_long: bool = False


class OpenAiProvider:
    """An endpoint that speaks OpenAI's chat-completions protocol.

    Args:
        settings: Address and limits.
        api_key: The endpoint's key; any word if it needs none.

    Attributes:
        base: Address of the endpoint without its query.
        query: The query.

    Raises:
        BadInput: There is no key, or it contains blanks or control characters.
    """

    def __init__(self, settings: LlmSettings, api_key: SecretStr | None) -> None:
        learn(api_key)
        self._key = api_key.get_secret_value().strip() if api_key else ""
        if not self._key:
            raise BadInput(
                f"no API key for {settings.base_url}; set ARENA_LLM_API_KEY, to any word if the endpoint needs none"
            )
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise BadInput(f"the API key for {settings.base_url} contains blanks or control characters; copy it again")
        self._settings = settings
        parts = urlsplit(settings.base_url)
        self.base, self.query = parts._replace(query="").geturl(), dict(parse_qsl(parts.query))
        self._session: aiohttp.ClientSession | None = None
        self._answered = False
        self._proxy: str | None = None

    def _open(self) -> aiohttp.ClientSession:
        """Returns the connections; needs a running event loop."""
        if self._session is None:
            retry = self._settings.retry
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
                timeout=aiohttp.ClientTimeout(total=retry.timeout_s, sock_connect=retry.connect_timeout_s),
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",  # a few compressed bytes could unpack to any size
                },
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            self._proxy = _proxy_for(self._settings.base_url)
        return self._session

    async def send(self, body: bytes, profile: ModelProfile = PLAIN) -> SendResult:
        """Makes one attempt; failures of the endpoint or the network are returned, not raised."""
        try:
            received = await self._request("POST", "/chat/completions", profile, body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return self.unreachable(error)
        except TimeoutError:
            return self.timed_out()
        except (aiohttp.ClientError, OSError) as error:
            told = redact(f"{type(error).__name__}: {error}")
            return SendResult(trouble=f"the connection broke off ({told})", retry=True, charged=True)
        if received.status != 200:
            return self.read_error(received)
        return self._read(received)

    def headers(self, profile: ModelProfile) -> dict[str, str]:
        """Returns the headers of a profile, the key's included."""
        bearer = profile.key_header.lower() == "authorization"
        return {**profile.headers, profile.key_header: f"Bearer {self._key}" if bearer else self._key}

    async def models(self, profile: ModelProfile = PLAIN) -> bytes:
        """Returns the endpoint's list of models as it sends it; empty where it has none."""
        try:
            received = await self._request("GET", "/models", profile)
        except (aiohttp.ClientError, OSError):
            return b""
        return redact_bytes(received.body) if received.status == 200 and not received.too_long else b""

    async def _request(
        self, method: Literal["GET", "POST"], path: str, profile: ModelProfile, body: bytes | None = None
    ) -> Received:
        query = {**self.query, **profile.query}
        url = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        async with self._open().request(
            method, url, data=body, headers=self.headers(profile), proxy=self._proxy, allow_redirects=False
        ) as response:
            length = response.content_length
            if length is not None and length <= self._settings.max_reply_bytes:
                return Received(response.status, response.headers, await response.read())
            read = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK):
                read += chunk
                if len(read) > self._settings.max_reply_bytes:
                    response.close()
                    return Received(response.status, response.headers, bytes(read[:1000]), too_long=True)
            return Received(response.status, response.headers, bytes(read))

    def _read(self, received: Received) -> SendResult:
        quotas = read_quotas(received.headers)
        if received.too_long:
            limit = self._settings.max_reply_bytes
            trouble = f"the reply is longer than {limit} bytes (max_reply_bytes)"
            return SendResult(trouble=trouble, charged=True, quotas=quotas)
        kind = received.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not kind.endswith("json") and kind != "text/event-stream":
            trouble = f"the reply is {kind or 'of no type'}, expected application/json"
            return SendResult(trouble=trouble, charged=True, quotas=quotas)
        body = redact_bytes(received.body)
        completion = read_completion(body)
        if completion.status:
            return self.read_error(received._replace(status=completion.status, body=completion.error))
        if completion.passing:
            return SendResult(trouble=completion.problem, retry=True, charged=True, quotas=quotas)
        self._answered = True
        return SendResult(body, quotas=quotas, completion=completion)

    def unreachable(self, error: Exception) -> SendResult:
        """Returns the result of an attempt that did not reach the endpoint."""
        told = redact(f"{type(error).__name__}: {error}")
        address = f"cannot reach {self._settings.base_url} ({told}); is it right, and is the server up? Set base_url"
        return SendResult(trouble=address, retry=True, error=TransientError(address))

    def timed_out(self) -> SendResult:
        """Returns the result of an attempt without a reply in time."""
        return SendResult(trouble=f"no reply in {self._settings.retry.timeout_s:g} s", retry=True, charged=True)

    def read_error(self, received: Received) -> SendResult:
        """Returns the result of an attempt that was answered with an error."""
        code, said = error_message(redact_bytes(received.body))
        status, where = received.status, self._settings.base_url
        trouble = f"HTTP {status}: {said}" if said else f"HTTP {status}"
        if code.lower() in REFUSAL_CODES or (status in (400, 403) and _MODERATED.search(said)):
            return SendResult(trouble=trouble, refused=True)
        if status in (400, 413, 422) and (_TOO_LONG.search(code) or _TOO_LONG.search(said)):
            return SendResult(trouble=trouble, too_long=True)
        if status == 403 and self._answered:  # the key is good: this call alone is turned down, for an unknown reason
            return SendResult(trouble=trouble)
        if status in (401, 403):
            return SendResult(
                trouble=trouble, error=BadInput(f"{where} refused the API key ({trouble}); set a valid key")
            )
        if status == 404:
            return SendResult(
                trouble=trouble,
                error=BadInput(
                    f"{where} does not know this model or address ({trouble}); set model to one that it serves, and "
                    "base_url so that it ends as the endpoint's does (mostly /v1)"
                ),
            )
        quotas = read_quotas(received.headers)
        asked_s = retry_after_s(received.headers)
        if (status == 402 and asked_s is None) or code == "insufficient_quota":
            return SendResult(
                trouble=trouble, error=BadInput(f"{where}: the account has no credit left ({trouble}); top up")
            )
        limited = status in LIMITED or (status in LIMITED_WITH_A_TIME and asked_s is not None)
        if limited and asked_s is None:
            asked_s = _delay_s(received.body) or wait_of(quotas)
        again = limited or is_busy(status) or status == CONFLICT
        return SendResult(
            trouble=trouble, retry=again, retry_after_s=asked_s if again else None, limited=limited, quotas=quotas
        )

    async def close(self) -> None:
        """Closes the connections."""
        if self._session:
            await self._session.close()


def _proxy_for(url: str) -> str | None:
    """Returns the proxy that the environment names for a URL. aiohttp itself would look it up for every call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _delay_s(body: bytes) -> float | None:
    """Returns the seconds that Google's `RetryInfo` in an error body asks to wait."""
    found = _RETRY_DELAY.search(body)
    return float(found[1]) if found else None


def error_message(body: bytes) -> tuple[str, str]:
    """Returns code and message of an error body, in one line; endpoints put them in different places."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", " ".join(body[:1000].decode("utf-8", "replace").split())[:200]
    if isinstance(told, list) and told:
        told = told[0]
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        told = told["error"]
    if not isinstance(told, dict):
        return "", str(told)[:200]
    said = next((str(told[name]) for name in ("message", "detail", "error") if told.get(name)), "")
    return str(told.get("code") or told.get("type") or ""), " ".join(said.split())[:200]
