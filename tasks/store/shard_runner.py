"""Where the shards of a stage run: the protocol, and processes of this machine."""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Protocol

Job = Callable[[], None]
"""Makes one shard; can be pickled, and may be called again when it was interrupted."""

TICK = 5.0
"""Seconds after which a runner says that nothing has ended."""


class ShardRunner(Protocol):
    """Carries out jobs. Wherever that is, the store's folder must be there under the same path."""

    @property
    def remote(self) -> bool:
        """Whether jobs may run on other machines: then it pays to load a model once more for each."""
        ...

    def run(self, jobs: Mapping[str, Job], processes: int, *, accelerated: bool = False) -> Generator[str | None]:
        """Carries out all jobs in any order.

        Args:
            jobs: By name.
            processes: How many at once on this machine.
            accelerated: Whether a job uses an accelerator where there is one.

        Yields:
            The name of each job that has ended; None every few seconds while none does.

        Raises:
            BrokenExecutor: The process or the machine of a job died. What a job itself raises passes unchanged.
        """
        ...


class LocalProcesses:
    """Runs jobs in processes of this machine, or in this process when one is enough."""

    remote = False

    def run(self, jobs: Mapping[str, Job], processes: int, *, accelerated: bool = False) -> Generator[str | None]:
        """As the protocol says."""
        processes = min(processes, len(jobs))
        if processes == 1:
            for name, job in jobs.items():
                job()
                yield name
        elif jobs:
            yield from _run_in_pool(jobs, processes)


LOCAL: ShardRunner = LocalProcesses()


def _run_in_pool(jobs: Mapping[str, Job], processes: int) -> Generator[str | None]:
    context = multiprocessing.get_context("spawn")  # direct children: they die with this process
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=_die_with_parent, initargs=(os.getpid(),)
    ) as pool:
        running: dict[Future[None], str] = {pool.submit(job): name for name, job in jobs.items()}
        try:
            while running:
                finished, _ = wait(running, timeout=TICK, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                    yield running.pop(future)
                if not finished:
                    yield None
        finally:
            for future in running:
                future.cancel()


def _die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, so that kill -9 of a build leaves no writer behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)
