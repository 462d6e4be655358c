"""The process that listens: checks where it may, says when it answers, and writes everything before it ends."""

import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvicorn
from fastapi import FastAPI

from flows.pipeline.public_scores import public_scores
from flows.pipeline.submissions import enter_run, taken_slots
from flows.pipeline.walk import Pipeline, StageLabel, build_labelled
from flows.service.app import make_app
from flows.service.model_proxy import ModelProxy
from flows.service.pages import make_pages
from schemas.errors import UsageError
from schemas.llm_settings import Cap
from schemas.manifest import Ref
from schemas.settings import Resources
from schemas.submission import Entry
from tasks.service.editions import Means
from tasks.service.service import DeskService, Editing, ServiceSettings
from tasks.store.editions import Editions
from tasks.store.store import Request, Store

KEY = "ARENA_SERVE_KEY"
"""Variable of the environment with the server's key."""

DESK_PORT, PAGES_PORT = 8642, 8643
"""Where the desk and the pages listen unless another port is chosen."""

KEPT_S = 120
"""Seconds that a connection without requests is kept: longer than an agent thinks between two of them."""

GRACE_S = 30
"""Seconds that requests under way have when the server ends."""


class Address(NamedTuple):
    """Where to listen; port 0: any free one."""

    host: str = "127.0.0.1"
    port: int = 0

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_address(address: Address, key: str | None) -> None:
    """Checks that others can reach the server only with a key.

    Raises:
        UsageError: They could without.
    """
    if not address.is_local and not key:
        raise UsageError(
            f"--host {address.host}: others can reach this address, and the server has no key; set {KEY}, or listen on "
            "127.0.0.1"
        )


def make_desk(store: Store, means: Means, settings: ServiceSettings) -> DeskService:
    """Returns the desk of a store, whose finished runs enter its editions."""

    def enter(edition: str, entry: Entry) -> object:
        pipeline = open_quietly(store, edition, means.resources)
        return public_scores(store, enter_run(pipeline, entry).slots, entry.task, settings.split)

    def is_taken(edition: str, run: str) -> bool:
        return bool(taken_slots(Editions(store).load(edition).slots, run))

    return DeskService(store, means, settings, Editing(is_taken, enter))


def open_quietly(store: Store, edition: str, resources: Resources) -> Pipeline:
    """Returns the pipeline of an edition, which executes in this process: a server starts no worker processes."""
    one = resources.model_copy(update={"workers": 1})

    def execute(request: Request, label: StageLabel) -> Ref:
        return build_labelled(store, request, one, label, lambda _: None).ref

    return Pipeline(store, edition, execute)


class _Announcing(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts, then announces the URL."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._announce(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")


def listen(address: Address) -> socket.socket:
    """Returns a socket that listens.

    Raises:
        UsageError: The address cannot be had.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        sock = socket.create_server(address, family=family)
    except OSError as error:
        raise UsageError(
            f"--host {address.host} --port {address.port}: cannot be listened on ({error.strerror}); choose another "
            "port, or 0 for any free one"
        ) from error
    # Connections inherit it. Without it the second packet of an answer waits 40 ms for the client to confirm the first:
    # asyncio turns it on only for sockets that it made itself.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def make_server(app: FastAPI, announce: Callable[[str], None]) -> uvicorn.Server:
    """Returns the server of an app; its `run` serves on a socket until SIGTERM or Ctrl-C.

    Args:
        app: What answers.
        announce: Called with the URL once the server answers.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEPT_S,
        lifespan="on",
    )
    return _Announcing(config, announce)


def serve_desk(
    store: Store,
    means: Means,
    settings: ServiceSettings,
    address: Address,
    key: str | None,
    announce: Callable[[str], None],
) -> None:
    """Serves the desk of a store until SIGTERM or Ctrl-C.

    The newest edition is opened before the URL is announced.

    Raises:
        UsageError: The address needs a key.
    """
    check_address(address, key)
    models = ModelProxy(store.root, Cap(usd=settings.most_usd))
    with listen(address) as sock:
        desk = make_desk(store, means, settings)
        desk.editions.prepare_newest()
        make_server(make_app(desk, key, local=address.is_local, models=models), announce).run([sock])


def serve_pages(store: Store, site: Path | None, address: Address, announce: Callable[[str], None]) -> None:
    """Serves the reports of a store's editions, and the site, until SIGTERM or Ctrl-C.

    Others than this machine see published editions alone.
    """
    with listen(address) as sock:
        make_server(make_pages(store, site, drafts=address.is_local), announce).run([sock])
