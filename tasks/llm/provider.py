"""The last layer of the door: sends one HTTP request to an OpenAI-compatible endpoint.

The `openai` package makes the call. Its retries are off, and its HTTP client is ours, so that no reply (not even an
error) can fill the memory.
"""

import asyncio
from typing import Any

import orjson
from pydantic import SecretStr

from schemas.errors import BadInput, MissingDependency, TransientError
from schemas.llm_settings import LlmSettings
from schemas.secrets import learn, redact_bytes
from tasks.http.retry import is_busy, retry_after_s
from tasks.llm.exchange import SendResult

try:
    import httpx2
    import openai
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingDependency("language models need the openai package: pip install 'research-arena[llm]'") from error

_TOO_LONG = "arena_too_long"


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that stops reading a body at a limit and marks the response as truncated.

    It asks for uncompressed bodies, because a few compressed bytes could unpack to any size.

    Args:
        limit: Longest body, in bytes.
        settings: As for `httpx2.AsyncClient`.
    """

    def __init__(self, limit: int, **settings: Any) -> None:
        super().__init__(headers={"Accept-Encoding": "identity"}, **settings)
        self._limit = limit

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Sends a request and reads the response body, unless a successful response is requested as a stream."""
        response = await super().send(request, stream=True, **options)
        if stream and response.is_success:
            return response
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._limit:
                    break
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _BODY_HEADERS]
        return httpx2.Response(
            response.status_code,
            headers=headers,
            content=bytes(body[: self._limit]),
            request=request,
            extensions={**response.extensions, _TOO_LONG: len(body) > self._limit},
        )


_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class OpenAiProvider:
    """An endpoint that speaks OpenAI's chat-completions protocol.

    Args:
        settings: Address and limits.
        api_key: The endpoint's key; any word if it needs none.

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
        self.client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=settings.base_url,
            max_retries=0,
            http_client=BoundedClient(
                settings.max_reply_bytes,
                timeout=httpx2.Timeout(settings.retry.timeout_s, connect=settings.retry.connect_timeout_s),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=settings.concurrency),
            ),
        )

    async def send(self, body: bytes) -> SendResult:
        """Makes one attempt; failures of the endpoint or the network are returned, not raised."""
        try:
            async with asyncio.timeout(self._settings.retry.timeout_s):
                response = await self.client.post(
                    "/chat/completions",
                    content=body,
                    cast_to=httpx2.Response,
                    options={"headers": {"Content-Type": "application/json"}},
                )
        except TimeoutError:
            return self._timed_out()
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            return self.trouble(error)
        if response.extensions[_TOO_LONG]:
            limit = self._settings.max_reply_bytes
            return SendResult(trouble=f"the reply is longer than {limit} bytes (max_reply_bytes)", charged=True)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not kind.endswith("json"):
            return SendResult(trouble=f"the reply is {kind or 'of no type'}, expected application/json", charged=True)
        return SendResult(redact_bytes(response.content))

    def trouble(self, error: openai.APIStatusError | openai.APIConnectionError | httpx2.RequestError) -> SendResult:
        """Classifies a failed HTTP call; the API key is redacted from the endpoint's message."""
        if isinstance(error, openai.APIStatusError):
            return self._status(error.response)
        cause = error if isinstance(error, httpx2.RequestError) else error.__cause__
        told = redact_bytes(f"{type(cause).__name__}: {cause}".encode()).decode()
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
            address = (
                f"cannot reach {self._settings.base_url} ({told}); is it right, and is the server up? Set base_url"
            )
            return SendResult(trouble=address, retry=True, error=TransientError(address))
        if isinstance(cause, httpx2.TimeoutException):
            return self._timed_out()
        return SendResult(trouble=f"the connection broke off ({told})", retry=True, charged=True)

    def _timed_out(self) -> SendResult:
        return SendResult(trouble=f"no reply in {self._settings.retry.timeout_s:g} s", retry=True, charged=True)

    def _status(self, response: httpx2.Response) -> SendResult:
        code, said = error_message(redact_bytes(response.content))
        status, where = response.status_code, self._settings.base_url
        trouble = f"HTTP {status}: {said}" if said else f"HTTP {status}"
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
        if status == 402 or code == "insufficient_quota":
            return SendResult(
                trouble=trouble, error=BadInput(f"{where}: the account has no credit left ({trouble}); top up")
            )
        if code in ("content_filter", "content_policy_violation"):
            return SendResult(trouble=trouble, refused=True)
        again = is_busy(status)
        return SendResult(
            trouble=trouble, retry=again, retry_after_s=retry_after_s(response.headers) if again else None
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self.client.close()


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
    return str(told.get("code") or ""), " ".join(said.split())[:200]
