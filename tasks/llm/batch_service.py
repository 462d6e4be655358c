"""The batch service of an endpoint: files and batches, asked through the official package, patiently."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TypeVar, cast

from openai.types import Batch

from schemas.errors import ArenaError, BadInput, MissingDependency, TransientError
from schemas.llm_settings import LlmSettings
from schemas.secrets import redact
from tasks.http.retry import RetryRules, wait_s
from tasks.llm.exchange import SendResult
from tasks.llm.profiles import Profiles
from tasks.llm.provider import OpenAiProvider, Received

try:
    import httpx2
    import openai

    from tasks.llm.bounded_client import BoundedClient
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingDependency("the batch service needs openai: pip install 'research-arena[llm]'") from error

ResultT = TypeVar("ResultT")

_FULL = re.compile(r"enqueued[ _]token|token_limit_exceeded", re.IGNORECASE)


def is_full(said: str) -> bool:
    """Returns whether an error says that too many tokens wait in batches."""
    return bool(_FULL.search(said))


class BatchService:
    """An endpoint's files and batches.

    Args:
        settings: The endpoint.
        provider: Knows the key, and what errors mean.
    """

    def __init__(self, settings: LlmSettings, provider: OpenAiProvider) -> None:
        self._settings, self._provider = settings, provider

    @cached_property
    def client(self) -> openai.AsyncOpenAI:
        """The official client."""
        profile, retry = Profiles(self._settings).of(self._settings.model), self._settings.retry
        headers: dict[str, str | openai.Omit] = {"Authorization": openai.Omit(), **self._provider.headers(profile)}
        return openai.AsyncOpenAI(
            api_key="in the headers",
            base_url=self._provider.base,
            max_retries=0,
            default_query={**self._provider.query, **profile.query},
            default_headers=cast("dict[str, str]", headers),
            http_client=BoundedClient(
                self._settings.max_reply_bytes,
                timeout=httpx2.Timeout(retry.timeout_s, connect=retry.connect_timeout_s),
            ),
        )

    async def create(self, lines: bytes, release: Callable[[], None]) -> Batch:
        """Uploads calls and starts a batch of them.

        Args:
            lines: A JSON object a line.
            release: Called when the batch has certainly not been accepted.

        Raises:
            ArenaError: As `patiently`.
        """
        try:
            file = await self.patiently(lambda: self.client.files.create(file=("calls.jsonl", lines), purpose="batch"))
        except ArenaError:
            release()
            raise
        try:
            return await self.patiently(
                lambda: self.client.batches.create(
                    input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
                ),
                once=True,
            )
        except (BadInput, TransientError) as error:
            if isinstance(error, BadInput) or is_full(str(error)):  # else it may have been accepted: it stays counted
                release()
            raise

    async def look(self, batch_id: str) -> Batch | None:
        """Returns a batch; None: the endpoint does not know it any more."""

        async def retrieve() -> Batch | None:
            try:
                return await self.client.batches.retrieve(batch_id)
            except openai.NotFoundError:
                return None

        return await self.patiently(retrieve)

    async def patiently(self, call: Callable[[], Awaitable[ResultT]], *, once: bool = False) -> ResultT:
        """Calls the endpoint, again where that may help; `once`: not where it may have been heard the first time.

        Raises:
            BadInput: The endpoint refuses the request.
            TransientError: It failed through all tries.
        """
        settings = self._settings.retry
        tries = 0
        while True:
            tries += 1
            try:
                return await call()
            except (openai.APIStatusError, openai.APIConnectionError, httpx2.RequestError) as error:
                sent = self._trouble(error)
            if not sent.retry or tries == settings.tries or (once and sent.charged):
                where = f"batch service of {self._settings.base_url}"
                raise sent.error or (TransientError if sent.retry else BadInput)(f"{where}: {sent.trouble}") from None
            await asyncio.sleep(wait_s(RetryRules.of(settings), tries, sent.retry_after_s))

    def _trouble(self, error: openai.APIStatusError | openai.APIConnectionError | httpx2.RequestError) -> SendResult:
        """Classifies a failed call; the API key is redacted from the endpoint's message."""
        if isinstance(error, openai.APIStatusError):
            response = error.response
            return self._provider.read_error(Received(response.status_code, response.headers, response.content))
        cause = error if isinstance(error, httpx2.RequestError) else error.__cause__
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
            return self._provider.unreachable(cause)
        if isinstance(cause, httpx2.TimeoutException):
            return self._provider.timed_out()
        told = redact(f"{type(cause).__name__}: {cause}")
        return SendResult(trouble=f"the connection broke off ({told})", retry=True, charged=True)

    async def close(self) -> None:
        """Closes the connections."""
        if "client" in self.__dict__:
            await self.client.close()
