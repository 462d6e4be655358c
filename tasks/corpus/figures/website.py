"""Figures from a web server: a list and pictures per paper, at URLs of two templates."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Self
from urllib.parse import quote, urlsplit

from pydantic import Field, field_validator

from schemas.errors import BadInput
from schemas.llm_settings import RetrySettings
from schemas.settings import Settings
from tasks.corpus.figures.source import MAX_LIST, Listed, Picture, Unusable, read_list
from tasks.http.client import BadAddress, HttpClient, HttpRequest, HttpSettings, TooLong, bare_url
from tasks.http.pace import OwnPace
from tasks.store.whole_files import write_whole

log = logging.getLogger(__name__)

USER_AGENT = "research-arena (figures of surveys, for a public benchmark)"


BRACES = "a URL may hold {corpus_id} and {picture}, and no other braces"


class HttpFigureSettings(Settings):
    """Where figures are, and how politely they are fetched."""

    list_url: str = Field(description="URL of a paper's list of figures; {corpus_id} is filled in.")
    picture_url: str = Field(description="URL of a picture; {corpus_id} and {picture} are filled in.")
    per_second: float = Field(default=1.0, gt=0, le=100, description="Requests a second, at most.")
    max_redirects: int = Field(default=3, ge=0, le=10, description="Redirects followed for one request.")
    redirect_hosts: tuple[str, ...] = Field(
        default=(), description="Hosts that a redirect may lead to, beside those of the two URLs."
    )
    retry: RetrySettings = Field(default=RetrySettings(timeout_s=60.0), description="How patiently it is tried again.")

    @field_validator("list_url", "picture_url")
    @classmethod
    def _fits(cls, url: str) -> str:
        try:
            plain = {name for _, *field in Formatter().parse(url) if (name := _plain_name(*field)) is not None}
        except ValueError as error:
            raise ValueError(BRACES) from error
        if not plain <= {"corpus_id", "picture"}:
            raise ValueError(BRACES)
        filled = urlsplit(_fill(url, 1, "a.png"))
        if filled.scheme not in ("http", "https") or not filled.hostname or filled.username or filled.password:
            raise ValueError("a URL must be like https://host/{corpus_id}, without user and password")
        if "corpus_id" not in plain:
            raise ValueError("a URL must hold {corpus_id}")
        return url

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts that a redirect may lead to."""
        own = (urlsplit(_fill(url, 1, "a.png")).hostname for url in (self.list_url, self.picture_url))
        return frozenset(host.lower() for host in (*own, *self.redirect_hosts) if host)


def _plain_name(name: str | None, form: str | None, conversion: str | None) -> str | None:
    """Returns a field of a template; one with a form or a conversion is named so that no plain field has the name."""
    return f"{name}!{conversion}:{form}" if form or conversion else name


def _fill(url: str, corpus_id: int, picture: str) -> str:
    """Returns a template with its fields filled in."""
    return url.format(corpus_id=corpus_id, picture=quote(picture, safe=""))


class HttpFigures:
    """A source of figures on a web server. It keeps every reply in a folder, also "not there", and asks once.

    Args:
        settings: Where the figures are and how politely they are fetched.
        cache: Folder of replies by the hash of their URL.
        max_bytes: A longer picture is not read.
        known: Returns a picture that was fetched at another time, by URL; None when there is none.
    """

    def __init__(
        self,
        settings: HttpFigureSettings,
        cache: Path,
        max_bytes: int,
        known: Callable[[str], bytes | None] = lambda url: None,
    ) -> None:
        self._settings, self._cache, self._max_bytes, self._known = settings, cache, max_bytes, known
        asking = replace(
            HttpSettings.of(settings.retry),
            max_redirects=settings.max_redirects,
            redirect_hosts=settings.hosts,
            user_agent=USER_AGENT,
            remedy="run it again: what was fetched is kept",
        )
        self._http = HttpClient(asking, OwnPace(1 / settings.per_second))
        cache.mkdir(parents=True, exist_ok=True)

    def figures(self, corpus_id: int) -> list[Listed | Unusable]:
        """Returns the figures of the paper's list; none when the server has no list."""
        data = self._load(_fill(self._settings.list_url, corpus_id, ""), MAX_LIST, "list_too_large")
        return read_list(data) if data else []

    def picture(self, corpus_id: int, name: str) -> Picture:
        """Returns the picture at the URL for `name`."""
        url = _fill(self._settings.picture_url, corpus_id, name)
        data = self._known(url) or self._load(url, self._max_bytes, "too_large")
        if not data:
            raise BadInput("no_picture")
        return Picture(data, url)

    def _load(self, url: str, limit: int, too_large: str) -> bytes:
        """Returns the bytes at a URL, from the folder or the server; empty when there is nothing."""
        kept = self._cache / hashlib.sha256(url.encode()).hexdigest()
        if not kept.is_file():
            write_whole(kept, self._fetch(url, limit))
        if kept.stat().st_size > limit:
            raise BadInput(too_large)
        return kept.read_bytes()

    def _fetch(self, url: str, limit: int) -> bytes:
        """Fetches a body; empty when there is none, longer than `limit` when it is too long."""
        try:
            reply = self._http.send(HttpRequest(url, headers={"accept-encoding": "identity"}), limit)
        except TooLong:
            return bytes(limit + 1)
        except BadAddress as error:
            trouble = str(error)
        else:
            if not reply.trouble:
                return reply.body
            trouble = reply.trouble
        log.info("%s: taken as absent (%s)", bare_url(url), trouble)
        return b""

    def close(self) -> None:
        """Closes connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
