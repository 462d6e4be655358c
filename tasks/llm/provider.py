"""The last layer of the door: one HTTP call to an OpenAI-compatible endpoint, and what became of it.

The `openai` package makes the call; its own retries are off, and its HTTP client is ours, so that no reply, not even an
error's, can fill the memory.
"""

import asyncio
from typing import Any

import orjson
from pydantic import SecretStr

from schemas.errors import BadInput, MissingDependency, TransientError
from schemas.llm import LlmSettings
from tasks.http.retry import is_busy, retry_after_s
from tasks.llm.exchange import Sent

try:
    import httpx2
    import openai
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingDependency("language models need the openai package: pip install 'research-arena[llm]'") from error

SECRET_LENGTH = 12
"""A key of fewer characters is no secret (local servers take any word) and is not cut out of replies."""

_TOO_LONG = "arena_too_long"


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that stops reading a body at a limit; what is cut off is marked so.

    Bodies are asked for and read uncompressed: a few compressed bytes could unpack to any size.

    Args:
        limit: Longest body, in bytes.
        settings: As for `httpx2.AsyncClient`.
    """

    def __init__(self, limit: int, **settings: Any) -> None:
        super().__init__(headers={"Accept-Encoding": "identity"}, **settings)
        self._limit = limit

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Sends a request; the body of the response is read already unless a good one is asked for as a stream."""
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
    """Any endpoint that speaks OpenAI's chat completions.

    Args:
        settings: Address and limits.
        api_key: The endpoint's key; any word where it needs none.

    Raises:
        BadInput: There is no key, or it cannot be one.
    """

    def __init__(self, settings: LlmSettings, api_key: SecretStr | None) -> None:
        self._key = api_key.get_secret_value().strip() if api_key else ""
        if not self._key:
            raise BadInput(
                f"no API key for {settings.base_url}; set ARENA_LLM_API_KEY, to any word where the endpoint needs none"
            )
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise BadInput(f"the API key for {settings.base_url} holds blanks or control characters; copy it again")
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

    async def send(self, body: bytes) -> Sent:
        """Makes one try; every failure of the endpoint or the network is told, none is raised."""
        try:
            async with asyncio.timeout(self._settings.retry.timeout_s):
                response = await self.client.post(
                    "/chat/completions",
                    content=body,
                    cast_to=httpx2.Response,
                    options={"headers": {"Content-Type": "application/json"}},
                )
        except TimeoutError:
            return self._late()
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            return self.trouble(error)
        if response.extensions[_TOO_LONG]:
            limit = self._settings.max_reply_bytes
            return Sent(trouble=f"the reply is longer than {limit} bytes (max_reply_bytes)", charged=True)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not kind.endswith("json"):
            return Sent(trouble=f"the reply is {kind or 'of no type'}, expected application/json", charged=True)
        return Sent(self.without_key(response.content))

    def trouble(self, error: openai.APIStatusError | openai.APIConnectionError | httpx2.RequestError) -> Sent:
        """What a failed HTTP call means, with the API key cut out of what the endpoint said."""
        if isinstance(error, openai.APIStatusError):
            return self._status(error.response)
        cause = error if isinstance(error, httpx2.RequestError) else error.__cause__
        told = self.without_key(f"{type(cause).__name__}: {cause}".encode()).decode()
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
            address = (
                f"cannot reach {self._settings.base_url} ({told}); is it right, and is the server up? Set base_url"
            )
            return Sent(trouble=address, retry=True, error=TransientError(address))
        if isinstance(cause, httpx2.TimeoutException):
            return self._late()
        return Sent(trouble=f"the connection broke off ({told})", retry=True, charged=True)

    def _late(self) -> Sent:
        return Sent(trouble=f"no reply in {self._settings.retry.timeout_s:g} s", retry=True, charged=True)

    def _status(self, response: httpx2.Response) -> Sent:
        code, said = error_said(self.without_key(response.content))
        status, where = response.status_code, self._settings.base_url
        trouble = f"HTTP {status}: {said}" if said else f"HTTP {status}"
        if status in (401, 403):
            return Sent(trouble=trouble, error=BadInput(f"{where} refused the API key ({trouble}); set a valid key"))
        if status == 404:
            return Sent(
                trouble=trouble,
                error=BadInput(
                    f"{where} does not know this model or address ({trouble}); set model to one that it serves, and "
                    "base_url so that it ends as the endpoint's does (mostly /v1)"
                ),
            )
        if status == 402 or code == "insufficient_quota":
            return Sent(trouble=trouble, error=BadInput(f"{where}: the account has no credit left ({trouble}); top up"))
        if code in ("content_filter", "content_policy_violation"):
            return Sent(trouble=trouble, refused=True)
        again = is_busy(status)
        return Sent(trouble=trouble, retry=again, retry_after_s=retry_after_s(response.headers) if again else None)

    def without_key(self, text: bytes) -> bytes:
        """What an endpoint said, without the API key, should it repeat it."""
        return text.replace(self._key.encode(), b"[API key]") if len(self._key) >= SECRET_LENGTH else text

    async def close(self) -> None:
        """Closes connections."""
        await self.client.close()


def error_said(body: bytes) -> tuple[str, str]:
    """Code and message of an error's body, in one line; endpoints differ in where they put them."""
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
