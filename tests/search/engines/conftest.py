"""A scripted service on the web, and a kit for engines that ask it without waiting."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.settings import RetrieverName
from schemas.tables.search_results import WebReplyRow
from tasks.search.engine import EngineKit, Shelf, WebAccess
from tasks.search.web_engine import WebClient, WebLimits
from tests.llm.scripted_server import ScriptedServer

LIMITS = WebLimits.model_validate(
    {"retry": {"tries": 3, "base_s": 0.001, "cap_s": 0.05, "timeout_s": 0.25}, "max_bytes": 100_000}
)


class Desk:
    """Makes kits whose clients note their waits instead of waiting."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.waits: list[float] = []
        self.intervals: list[float] = []
        self.clients: list[WebClient] = []
        self.known: dict[str, WebReplyRow] = {}

    def kit(self, name: str, **more: Any) -> EngineKit:
        web = {"base_urls": {name: self.base_url}, "limits": LIMITS} | more.pop("web", {})
        files: tuple[Path, ...] = more.pop("files", ())
        return EngineKit(
            open_shelf=_no_edition, open_web=self._open_web, web=WebAccess.model_validate(web), files=files, **more
        )

    def _open_web(self, interval_s: float) -> WebClient:
        self.intervals.append(interval_s)
        self.clients.append(WebClient(LIMITS, 0.0, self.known, mailto="a@b.example", sleep=self.waits.append))
        return self.clients[-1]


def _no_edition(name: RetrieverName) -> Shelf:
    raise AssertionError(f"{name} is no engine on the web")


@pytest.fixture
def desk(server: ScriptedServer) -> Iterator[Desk]:
    desk = Desk(server.url)
    yield desk
    for client in desk.clients:
        client.close()
