"""Serves a store from a process that a test starts and kills."""

from multiprocessing.synchronize import Event
from pathlib import Path

from flows.service.serve import Address, serve_desk
from schemas.settings import Resources
from tasks.service.editions import Means
from tasks.service.service import ServiceSettings
from tasks.store.store import Store


def serve(root: Path, port: int, ready: Event) -> None:
    """Serves until the process is ended; sets `ready` when it answers."""
    means, address = Means(Resources(workers=2)), Address(port=port)
    serve_desk(Store(root), means, ServiceSettings(), address, None, lambda _: ready.set())
