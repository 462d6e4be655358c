"""Figures from a web server: a list and pictures per paper, at URLs of two templates."""

import hashlib
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlsplit

import httpx
from pydantic import Field, field_validator

from schemas.errors import BadInput, TransientError
from schemas.llm import RetrySettings
from schemas.settings import Settings
from tasks.corpus.figures.source import MAX_LIST, Listed, Picture, Unusable, read_list
from tasks.llm.retry import BUSY, retry_after_s, wait_s

log = logging.getLogger(__name__)

USER_AGENT = "research-arena (figures of surveys, for a public benchmark)"


class HttpFigureSettings(Settings):
    """Where figures are, and how politely they are fetched."""

    list_url: str = Field(description="URL of a paper's list of figures; {corpus_id} is filled in.")
    picture_url: str = Field(description="URL of a picture; {corpus_id} and {picture} are filled in.")
    per_second: float = Field(default=1.0, gt=0, le=100, description="Requests a second, at most.")
    max_redirects: int = Field(default=3, ge=0, le=10, description="Redirects followed for one request.")
    retry: RetrySettings = Field(default=RetrySettings(timeout_s=60.0), description="How patiently it is tried again.")

    @field_validator("list_url", "picture_url")
    @classmethod
    def _fits(cls, url: str) -> str:
        try:
            filled = urlsplit(url.format(corpus_id=1, picture="a.png"))
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise ValueError("a URL may hold {corpus_id} and {picture}, and no other braces") from error
        if filled.scheme not in ("http", "https") or not filled.hostname or filled.username or filled.password:
            raise ValueError("a URL must be like https://host/{corpus_id}, without user and password")
        if "{corpus_id" not in url:
            raise ValueError("a URL must hold {corpus_id}")
        return url


class HttpFigures:
    """A source of figures. What it fetched, or was told is not there, it keeps in a folder and never fetches again.

    Args:
        settings: Where and how.
        cache: Folder of replies by the hash of their URL.
        max_bytes: A longer picture is not read to its end.
        known: Pictures by URL that were fetched at another time; None where there is none.
    """

    def __init__(
        self,
        settings: HttpFigureSettings,
        cache: Path,
        max_bytes: int,
        known: Callable[[str], bytes | None] = lambda url: None,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._max_bytes = max_bytes
        self._known = known
        self._next = 0.0
        self._jitter = random.Random()  # noqa: S311
        self._client = httpx.Client(
            headers={"user-agent": USER_AGENT, "accept-encoding": "identity"},
            timeout=settings.retry.connect_timeout_s,
            follow_redirects=True,
            max_redirects=settings.max_redirects,
        )
        cache.mkdir(parents=True, exist_ok=True)

    def figures(self, corpus_id: int) -> list[Listed | Unusable]:
        """The figures of the paper's list; none where the server has no list."""
        data = self._load(self._settings.list_url.format(corpus_id=corpus_id, picture=""), MAX_LIST, "list_too_large")
        return read_list(data) if data else []

    def picture(self, corpus_id: int, name: str) -> Picture:
        """The picture at the URL for `name`."""
        url = self._settings.picture_url.format(corpus_id=corpus_id, picture=quote(name, safe=""))
        data = self._known(url) or self._load(url, self._max_bytes, "too_large")
        if not data:
            raise BadInput("no_picture")
        return Picture(data, url)

    def _load(self, url: str, limit: int, too_large: str) -> bytes:
        """The bytes at a URL, from the folder or the server; empty: there is nothing."""
        kept = self._cache / hashlib.sha256(url.encode()).hexdigest()
        if kept.is_file():
            data = kept.read_bytes()
        else:
            data = self._fetch(url, limit)
            draft = kept.with_suffix(".tmp")
            draft.write_bytes(data)
            draft.replace(kept)
        if len(data) > limit:
            raise BadInput(too_large)
        return data

    def _fetch(self, url: str, limit: int) -> bytes:
        """Fetches, again where that may help; at most one byte more than `limit`. Other failures mean: nothing there.

        Raises:
            TransientError: After all tries there is no answer.
        """
        retry = self._settings.retry
        trouble = ""
        for tries in range(1, retry.tries + 1):
            self._wait_for_turn()
            asked_s = None
            try:
                with self._client.stream("GET", url) as response:
                    if response.is_success:
                        return _read(response, limit, time.monotonic() + retry.timeout_s)
                    if response.status_code not in BUSY:
                        return self._absent(url, f"status {response.status_code}")
                    asked_s = retry_after_s(response.headers)
                    trouble = f"status {response.status_code}"
            except (httpx.TooManyRedirects, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                return self._absent(url, str(error))
            except httpx.RequestError as error:
                trouble = f"{type(error).__name__}: {error}"
            if tries < retry.tries:
                time.sleep(wait_s(retry, tries, asked_s, self._jitter))
        raise TransientError(f"{url}: {trouble} (tries: {retry.tries}); run it again: what was fetched is kept")

    def _absent(self, url: str, why: str) -> bytes:
        log.info("%s: taken as absent (%s)", url, why)
        return b""

    def _wait_for_turn(self) -> None:
        now = time.monotonic()
        time.sleep(max(0.0, self._next - now))
        self._next = max(now, self._next) + 1 / self._settings.per_second

    def close(self) -> None:
        """Closes connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(response: httpx.Response, limit: int, deadline: float) -> bytes:
    """The body as it is sent, never unpacked: one byte beyond `limit` is enough to know that it is too long."""
    data = bytearray()
    for chunk in response.iter_raw():
        data += chunk
        if len(data) > limit:
            return bytes(data[: limit + 1])
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer takes too long")
    return bytes(data)
