"""Shards on other machines: a Ray cluster as a runner of shards.

What belongs here: carrying jobs to Ray and what comes of them back. What does not: which shards there are
(`tasks.store.workspace`), choosing a runner (`runner`), stages that ask language models: these wait for replies in
threads of one process and gain nothing from more machines.
"""

import importlib.util
import logging
import os
import signal
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import BrokenExecutor

from schemas.errors import ArenaError, MissingDependency
from tasks.store.shard_runner import TICK, Job

ALL_AT_ONCE = 256
"""Jobs that are handed to Ray at a time."""


class RayShards:
    """Runs jobs on the Ray cluster of RAY_ADDRESS, or on one of this machine that ends with this process.

    A job takes one core; one that uses an accelerator takes `gpus` of them too.

    Args:
        gpus: GPUs, or the part of one, that an accelerated job takes; 0: none.

    Raises:
        MissingDependency: Ray is not installed.
    """

    remote = True

    def __init__(self, gpus: float = 0) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingDependency("--runner ray needs Ray: pip install 'research-arena[ray]'")
        self._gpus = gpus

    def run(self, jobs: Mapping[str, Job], processes: int, *, accelerated: bool = False) -> Generator[str | None]:
        """As `ShardRunner` says; `processes` is the size of a cluster of our own."""
        if not jobs:
            return
        import ray
        from ray.exceptions import RayError, RayTaskError

        _join(processes)
        carry = ray.remote(_carry_out).options(num_cpus=1, num_gpus=self._gpus if accelerated else 0, max_retries=0)
        waiting, running = list(jobs), {}
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
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise BrokenExecutor(str(error)) from error
        finally:
            for reference in running:
                ray.cancel(reference)


def _carry_out(job: Job) -> None:
    """Runs where Ray says."""
    job()


def _join(processes: int) -> None:
    """Connects this process to a cluster, once; starts one when there is none.

    Raises:
        ArenaError: Nothing answers at RAY_ADDRESS.
    """
    import ray

    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing of ours is reported to anyone
    address = os.environ.get("RAY_ADDRESS")
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            num_cpus=None if address else processes,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.WARNING,
        )
    except ConnectionError as error:
        raise ArenaError(f"no Ray cluster at RAY_ADDRESS={address}; start it, or unset the variable") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(
            signal.SIGTERM, on_end
        )  # Ray put its own in place of Prefect's, which ends a cancelled run in order
