"""Where the shards of a stage run: the protocol, and processes of this machine."""

import time
from collections.abc import Generator, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from tasks.store.worker_pool import Job, Team, WorkerPool

Sizes = Mapping[str, int]
"""Bytes that jobs read, by name."""

NO_SIZES: Sizes = MappingProxyType({})

TICK = 5.0
"""Seconds after which a runner says that nothing has ended."""

SMALL_BYTES = 8 * 2**20
"""A job that reads fewer bytes may run in this process: it takes a second or so."""

SHARED_BYTES = 4 * 2**20
"""Jobs that read so much together are shared at once."""

START_SECONDS, WAKE_SECONDS = 0.25, 0.05
"""What sharing must save: where processes have to be started, and where they wait for work."""


class ShardRunner(Protocol):
    """Carries out jobs. Wherever that is, the store's folder must be there under the same path."""

    @property
    def remote(self) -> bool:
        """Whether jobs may run on other machines: then it pays to load a model once more for each."""
        ...

    def run(
        self, jobs: Mapping[str, Job], processes: int, *, accelerated: bool = False, sizes: Sizes = NO_SIZES
    ) -> Generator[str | None]:
        """Carries out all jobs in any order.

        Args:
            jobs: By name.
            processes: How many at once on this machine.
            accelerated: Whether a job uses an accelerator where there is one.
            sizes: Bytes that jobs read, where that is known.

        Yields:
            The name of each job that has ended; None every few seconds while none does.

        Raises:
            BrokenExecutor: The process or the machine of a job died. What a job itself raises passes unchanged.
        """
        ...


class LocalProcesses:
    """Runs jobs in processes of this machine, or in this process when there is too little to share.

    The processes are started when jobs are first worth it, and kept for all later stages. The rule: small jobs begin in
    this process. Once the rest, by the rate so far, would take longer than starting processes saves, processes are
    started, and this process goes on until they are ready. Jobs that read much are shared from the start. Where all
    jobs are known to be small, this process is one of those that share them to the end.
    """

    remote = False

    def __init__(self) -> None:
        self._pool = WorkerPool()

    @property
    def workers(self) -> list[int]:
        """Process ids of the workers."""
        return self._pool.processes

    def run(
        self, jobs: Mapping[str, Job], processes: int, *, accelerated: bool = False, sizes: Sizes = NO_SIZES
    ) -> Generator[str | None]:
        """As the protocol says."""
        processes = min(processes, len(jobs))
        left = dict(jobs)
        rate = _Rate(sizes)
        helps = all(0 < sizes.get(name, 0) < SMALL_BYTES for name in jobs)
        with self._pool.lend() as team:
            while left or team.running:
                if not team.members and processes > 1 and self._is_worth_sharing(rate, left, processes, helps):
                    self._pool.enlist(team, processes - helps, next(iter(left.values())))
                if not team.members:
                    name = next(iter(left))
                    start = time.perf_counter()
                    left.pop(name)()
                    rate.add(name, time.perf_counter() - start)
                    yield name
                    continue
                team.feed(left)
                if team.here not in team.running and (here := _next_here(team, left, sizes, helps)):
                    team.start_here(here, left.pop(here))
                yield from team.collect(TICK) or [None]

    def _is_worth_sharing(self, rate: "_Rate", left: Mapping[str, Job], processes: int, helps: bool) -> bool:
        """Returns whether the rest takes so long that sharing it saves more than it costs."""
        if sum(rate.sizes.get(name, 0) for name in left) >= SHARED_BYTES:
            return True
        cost = WAKE_SECONDS if self._pool.idle >= processes - helps else START_SECONDS
        return rate.seconds(left) * (1 - 1 / processes) > cost


_PROCESSES = LocalProcesses()
LOCAL: ShardRunner = _PROCESSES


def local_workers() -> list[int]:
    """Returns the process ids of this machine's workers."""
    return _PROCESSES.workers


def _next_here(team: Team, left: Mapping[str, Job], sizes: Sizes, helps: bool) -> str | None:
    """Returns the job to run in this process beside others, or None to wait for them."""
    name = next(iter(left), None)
    if name is None or helps or (not team.ready and sizes.get(name, 0) < SMALL_BYTES):
        return name
    return None


class _Rate:
    """How fast jobs end in this process, by the bytes that they read; jobs of unknown size count alike."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self._spent = self._done = 0.0

    def add(self, job: str, seconds: float) -> None:
        """Takes note of a job that has ended."""
        self._spent += seconds
        self._done += self.sizes.get(job, 1)

    def seconds(self, jobs: Iterable[str]) -> float:
        """Returns how long jobs would take here; 0 before the first has ended."""
        return self._spent / self._done * sum(self.sizes.get(name, 1) for name in jobs) if self._done else 0.0
