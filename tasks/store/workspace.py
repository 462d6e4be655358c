"""Where a stage works: an unpublished folder whose finished shards survive a kill.

What belongs here: shards, their markers, running them here or in other processes. What does not: publishing (`store`).
"""

import ctypes
import logging
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from schemas.errors import StageFailed
from schemas.llm import LlmAccess
from schemas.manifest import Counts
from schemas.release import ReleaseDataset
from schemas.settings import Resources, Settings
from tasks.store.dataset import Dataset

log = logging.getLogger(__name__)

MARKERS = ".shards"
SCRATCH = ".scratch"
SHARED = "shared"

P = TypeVar("P", bound=Settings)
A = TypeVar("A")


class Progress(NamedTuple):
    """How far a stage is: shards done of all, and a word on what is going on."""

    stage: str
    done: int
    total: int
    note: str = ""


def fsync_path(path: Path) -> None:
    """Forces a file's or folder's bytes to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Marker(BaseModel):
    """Written when a shard is finished: its files and counts."""

    model_config = ConfigDict(extra="forbid")

    files: list[str]
    counts: Counts


@dataclass
class Shard:
    """One resumable part of a stage: the files it writes appear together, with their counts, or not at all.

    Use as a context manager; files asked for by `file()` get their names on a clean exit only.
    """

    folder: Path
    name: str
    counts: Counts = field(default_factory=Counts)
    _files: list[str] = field(default_factory=list[str])

    def file(self, name: str) -> Path:
        """Where to write the file that will be published as `name` (relative to the dataset)."""
        self._files.append(name)
        path = self._temporary(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def scratch(self, name: str) -> Path:
        """Where to write a file that later shards read as `workspace.scratch / name`; it is kept but not published."""
        return self.file(f"{SCRATCH}/{SHARED}/{name}")

    def _temporary(self, name: str) -> Path:
        return self.folder / SCRATCH / f"{self.name}.{os.getpid()}" / name

    def __enter__(self) -> Self:
        shutil.rmtree(self._temporary(""), ignore_errors=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._commit()
        shutil.rmtree(self._temporary(""), ignore_errors=True)

    def _commit(self) -> None:
        for name in self._files:
            temporary, final = self._temporary(name), self.folder / name
            final.parent.mkdir(parents=True, exist_ok=True)
            fsync_path(temporary)
            temporary.replace(final)
        marker = self.folder / MARKERS / f"{self.name}.json"
        marker.parent.mkdir(exist_ok=True)
        draft = marker.with_suffix(".tmp")
        draft.write_text(_Marker(files=self._files, counts=self.counts).model_dump_json())
        fsync_path(draft)
        draft.replace(marker)


@dataclass
class Workspace(Generic[P]):
    """What a stage's function gets: where to write, what to read, how many processes it may use.

    Attributes:
        folder: The staging folder.
        settings: Parameters of the stage; all of them are in its key.
        inputs: Datasets and release files by the names under which the stage asked for them.
        resources: Never changes a result.
        earlier: Published datasets of the same stage, newest first: a stage may take content-keyed results from them.
        report: Called with progress every now and then.
        llm: How to reach a language model; None where no endpoint is set up.
    """

    stage: str
    folder: Path
    settings: P
    inputs: Mapping[str, Dataset | ReleaseDataset]
    resources: Resources
    earlier: tuple[Dataset, ...] = ()
    report: Callable[[Progress], None] = lambda progress: None
    llm: LlmAccess | None = None

    def dataset(self, name: str) -> Dataset:
        """The input dataset `name`."""
        found = self.inputs[name]
        if not isinstance(found, Dataset):
            raise StageFailed(f"stage {self.stage}: input {name} holds release files, not a dataset")
        return found

    def release(self, name: str) -> ReleaseDataset:
        """The input release files `name`."""
        found = self.inputs[name]
        if not isinstance(found, ReleaseDataset):
            raise StageFailed(f"stage {self.stage}: input {name} is a dataset, not release files")
        return found

    @property
    def scratch(self) -> Path:
        """A folder for intermediate files: it survives a kill, and is not published."""
        path = self.folder / SCRATCH / SHARED
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def processes(self) -> int:
        """How many worker processes to use."""
        return self.resources.workers or len(os.sched_getaffinity(0))

    def finished(self) -> set[str]:
        """Names of the shards that an earlier attempt, or this one, has finished."""
        return {path.stem for path in (self.folder / MARKERS).glob("*.json")}

    def counts(self) -> Counts:
        """Sum of the finished shards' counts."""
        total = Counts()
        for path in sorted((self.folder / MARKERS).glob("*.json")):
            total.add(_Marker.model_validate_json(path.read_bytes()).counts)
        return total

    def pending(self, names: list[str]) -> Iterator[Shard]:
        """The shards among `names` that are not finished, in order; reports progress after each."""
        done = self.finished()
        for place, name in enumerate(names):
            if name not in done:
                yield Shard(self.folder, name)
            self.report(Progress(self.stage, place + 1, len(names), name))

    def map_shards(self, work: Callable[[Shard, A], None], shards: Mapping[str, A]) -> None:
        """Runs `work(shard, argument)` for every unfinished shard, in worker processes when there are several.

        Args:
            work: Importable by name (it travels to other processes); writes through the shard it gets.
            shards: Argument by shard name.

        Raises:
            StageFailed: A worker process died (killed, out of memory). Errors raised by `work` pass unchanged.
        """
        done = self.finished() & set(shards)
        waiting = {name: argument for name, argument in shards.items() if name not in done}
        if not waiting:
            return
        if min(self.processes, len(waiting)) == 1:
            for count, (name, argument) in enumerate(waiting.items(), len(done) + 1):
                _run_shard(work, self.folder, name, argument)
                self.report(Progress(self.stage, count, len(shards), name))
            return
        self._map_in_processes(work, waiting, len(done), len(shards))

    def _map_in_processes(
        self, work: Callable[[Shard, A], None], waiting: Mapping[str, A], done: int, total: int
    ) -> None:
        context = multiprocessing.get_context("spawn")  # direct children: they die with this process
        with ProcessPoolExecutor(
            min(self.processes, len(waiting)), mp_context=context, initializer=_die_with_parent, initargs=(os.getpid(),)
        ) as pool:
            running: dict[Future[None], str] = {
                pool.submit(_run_shard, work, self.folder, name, argument): name for name, argument in waiting.items()
            }
            try:
                while running:
                    finished, _ = wait(running, timeout=5, return_when=FIRST_COMPLETED)
                    for future in finished:
                        future.result()
                        done += 1
                        self.report(Progress(self.stage, done, total, running.pop(future)))
                    if not finished:
                        self.report(Progress(self.stage, done, total))
            except BrokenProcessPool as error:
                raise StageFailed(
                    f"stage {self.stage}: a worker process died (killed, or out of memory) after {done} of {total} "
                    "shards; run it again: finished shards are kept; fewer workers need less memory"
                ) from error
            finally:
                for future in running:
                    future.cancel()


def _die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, so that kill -9 of a build leaves no writer behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)


def _run_shard(work: Callable[[Shard, A], None], folder: Path, name: str, argument: A) -> None:
    start = time.perf_counter()
    with Shard(folder, name) as shard:
        work(shard, argument)
    log.info("shard %s of %s: %.1f s, %s", name, folder.parent.name, time.perf_counter() - start, shard.counts)
