"""Runs shards on other machines, with a Ray cluster."""

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any

from schemas.errors import ArenaError, MissingDependency, UsageError
from tasks.store.shard_runner import NO_SIZES, TICK, Job, Sizes

ALL_AT_ONCE = 256
"""Jobs that Ray holds at the same time."""

ADDRESS = re.compile(r"[\w.-]+:\d+")
"""Address of a cluster as host and port; Ray also knows `auto` and `ray://`."""

SHUTDOWN_TIMEOUT = 120.0
"""Seconds that cancelled jobs get to end."""


class RayShards:
    """Runs jobs on the Ray cluster of RAY_ADDRESS, or on a local one that ends with this process.

    A job takes one core; an accelerated job also takes `gpus` GPUs.

    Args:
        gpus: GPUs per accelerated job; may be a fraction, 0: none.

    Raises:
        MissingDependency: Ray is not installed.
    """

    remote = True

    def __init__(self, gpus: float = 0) -> None:
        try:
            self._ray: Any = import_module("ray")  # an optional extra: its types are not always installed
        except ImportError as error:
            raise MissingDependency("--runner ray needs Ray: pip install 'research-arena[ray]'") from error
        self._gpus = gpus

    def run(
        self, jobs: Mapping[str, Job], processes: int, *, accelerated: bool = False, sizes: Sizes = NO_SIZES
    ) -> Generator[str | None]:
        """Runs the jobs as `ShardRunner` describes; `processes` is the number of cores of a local cluster."""
        if not jobs:
            return
        ray = self._ray
        _join(ray, processes)
        gpus = self._gpus if accelerated else 0
        if gpus > (found := ray.cluster_resources().get("GPU", 0)):
            raise UsageError(f"a job needs {gpus} GPU, the Ray cluster has {found:.0f}; add one, or use --device cpu")
        carry = ray.remote(_run_job).options(num_cpus=1, num_gpus=gpus, max_retries=0)
        waiting: list[str] = list(jobs)
        running: dict[Any, str] = {}
        try:
            while waiting or running:
                while waiting and len(running) < ALL_AT_ONCE:
                    name = waiting.pop(0)
                    running[carry.remote(jobs[name])] = name
                ended, _ = ray.wait(list(running), timeout=TICK)
                for reference in ended:
                    ray.get(reference)
                    yield running.pop(reference)
                if not ended:
                    yield None
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise BrokenExecutor(str(error)) from error
        finally:
            _end(ray, list(running))


def _end(ray: Any, references: list[Any]) -> None:
    """Cancels jobs and waits until they end: afterwards the stage's lock is free and they must not write."""
    with suppress(ray.exceptions.RayError):
        for reference in references:
            ray.cancel(reference)
        if references:
            ray.wait(references, num_returns=len(references), timeout=SHUTDOWN_TIMEOUT)


def _run_job(job: Job) -> None:
    """Runs a job on the worker that Ray chose."""
    job()


def _join(ray: Any, processes: int) -> None:
    """Connects this process to a cluster once; starts one when RAY_ADDRESS names none.

    Raises:
        ArenaError: Nothing answers at RAY_ADDRESS.
    """
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # sends no usage statistics
    address = os.environ.get("RAY_ADDRESS")
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        if address and ADDRESS.fullmatch(address):  # Ray would end this process after a minute without an answer
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(
            num_cpus=None if address else processes,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.WARNING,
        )
    except OSError as error:
        raise ArenaError(f"no Ray cluster at RAY_ADDRESS={address}; start it, or unset the variable") from error
    if threading.current_thread() is threading.main_thread():
        # Ray replaced Prefect's handler, which ends a cancelled run cleanly.
        signal.signal(signal.SIGTERM, on_end)
