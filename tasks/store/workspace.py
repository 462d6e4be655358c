"""Where a stage works: an unpublished folder that keeps finished shards when the process is killed."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from schemas.errors import StageFailed, StoreError
from schemas.identifiers import Digest
from schemas.llm_settings import LlmAccess
from schemas.manifest import FILE_FORMAT, Counts, FileEntry, ShardEntry
from schemas.release import ReleaseDataset
from schemas.settings import Resources, Settings
from tasks.store.dataset import Dataset
from tasks.store.hashes import check_files, check_size
from tasks.store.shard import MARKERS, SCRATCH, SHARED, Marker, Shard
from tasks.store.shard_runner import LOCAL, NO_SIZES, ShardRunner, Sizes
from tasks.store.whole_files import read_record

log = logging.getLogger(__name__)

SEEN_WITHIN = 90.0
"""Seconds within which a file of another machine appears here; NFS caches directories for up to 60."""

P = TypeVar("P", bound=Settings)
A = TypeVar("A")

Reads = Mapping[str, Sequence[Path | str]]
"""By shard, all that decides its files beside the stage and its settings: files of inputs, and words for the rest."""

NO_READS: Reads = MappingProxyType({})


class Progress(NamedTuple):
    """Progress of a stage: shards done, shards in total, and a short note."""

    stage: str
    done: int
    total: int
    note: str = ""


class _Offer(NamedTuple):
    """A shard of an earlier dataset: the dataset, the shard's files, its counts."""

    dataset: Dataset
    files: tuple[FileEntry, ...]
    counts: Counts


@dataclass
class Workspace(Generic[P]):
    """What a stage's function receives: the folder to write to, its inputs, its settings and resources.

    Attributes:
        folder: The staging folder.
        settings: Parameters of the stage; all of them are in its key.
        inputs: Datasets and release files by the names under which the stage asked for them.
        resources: Never changes a result.
        earlier: Published datasets of the same stage, newest first: a stage may take content-keyed results from them.
        report: Called with progress every now and then.
        llm: How to reach a language model; None where no endpoint is set up.
        version: Of the stage.
        takes_over: Whether shards of `earlier` datasets with the same key are taken as they are.
        runner: Where shards run; never changes a result.
        again: Outcomes of the subjects to ask again; the dataset's other answers are kept. Empty: all are asked.
    """

    stage: str
    folder: Path
    settings: P
    inputs: Mapping[str, Dataset | ReleaseDataset]
    resources: Resources
    earlier: tuple[Dataset, ...] = ()
    report: Callable[[Progress], None] = lambda progress: None
    llm: LlmAccess | None = None
    version: int = 0
    takes_over: bool = True
    runner: ShardRunner = LOCAL
    again: frozenset[str] = frozenset()

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
        """Returns the number of worker processes to use."""
        return self.resources.workers or len(os.sched_getaffinity(0))

    def finished(self) -> set[str]:
        """Returns the names of finished shards, including those of earlier attempts."""
        return {path.stem for path in (self.folder / MARKERS).glob("*.json")}

    def resume(self) -> int:
        """Forgets shards of earlier attempts whose files were damaged since; returns how many are kept."""
        for path in (self.folder / MARKERS).glob("*.json"):
            try:
                marker = self._marker(path)
                scratch = [file for file in marker.scratch if (self.folder / file.path).exists()]
                why = "".join(f"{path.name} {what}" for path, what in check_files(self.folder, marker.files + scratch))
            except StoreError as error:
                why = str(error)
            if why:
                log.warning("stage %s: shard %s is made again: %s", self.stage, path.stem, why)
                path.unlink()
        return len(self.finished())

    def counts(self) -> Counts:
        """Returns the sum of the finished shards' counts."""
        total = Counts()
        for marker in self._markers().values():
            total.add(marker.counts)
        return total

    def taken(self) -> int:
        """Returns how many of the finished shards were reused from earlier datasets."""
        return sum(marker.taken for marker in self._markers().values())

    def offered(self) -> dict[str, ShardEntry]:
        """Returns the finished shards that a later build may reuse."""
        return {
            name: ShardEntry(key=marker.key, files=tuple(file.path for file in marker.files), counts=marker.counts)
            for name, marker in self._markers().items()
            if marker.key
        }

    def described(self) -> dict[str, FileEntry]:
        """The finished shards' files."""
        return {file.path: file for marker in self._markers().values() for file in marker.files}

    def _markers(self) -> dict[str, Marker]:
        paths = sorted((self.folder / MARKERS).glob("*.json"))
        return {path.stem: self._marker(path) for path in paths}

    def _marker(self, path: Path) -> Marker:
        return read_record(path, Marker, f"delete it and run stage {self.stage} again")

    def pending(
        self,
        names: list[str],
        reads: Reads = NO_READS,
        recount: Callable[[Counts], Counts] = lambda counts: counts,
    ) -> Iterator[Shard]:
        """The shards among `names` that are neither finished nor taken over, in order; reports progress after each.

        Args:
            names: All shards.
            reads: A shard named here is taken over from an earlier dataset that has one with the same key.
            recount: The counts of a shard that is taken over, from those it was made with.
        """
        done = self.finished()
        for place, name in enumerate(names):
            if name not in done and not self._take_over(name, reads, recount):
                yield Shard(self.folder, name, self._shard_key(name, reads))
            self.report(Progress(self.stage, place + 1, len(names), name))

    def _shard_key(self, name: str, reads: Reads) -> Digest | None:
        if name not in reads:
            return None
        parts = [part if isinstance(part, str) else self._hashes[part] for part in reads[name]]
        text = json.dumps(
            [self.stage, self.version, FILE_FORMAT, self.settings.model_dump(mode="json"), name, parts], sort_keys=True
        )
        return Digest(hashlib.sha256(text.encode()).hexdigest())

    @cached_property
    def _hashes(self) -> dict[Path, str]:
        datasets = [item for item in self.inputs.values() if isinstance(item, Dataset)]
        return {dataset.path(file.path): file.sha256 for dataset in datasets for file in dataset.manifest.files}

    @cached_property
    def _offers(self) -> dict[Digest, _Offer]:
        """What earlier datasets offer, by key; of several the newest's."""
        offers: dict[Digest, _Offer] = {}
        for dataset in reversed(self.earlier):
            files = {file.path: file for file in dataset.manifest.files}
            for entry in dataset.manifest.shards.values():
                offers[entry.key] = _Offer(dataset, tuple(files[path] for path in entry.files), entry.counts)
        return offers

    def _take_over(self, name: str, reads: Reads, recount: Callable[[Counts], Counts]) -> bool:
        key = self._shard_key(name, reads)
        if key is None or not self.takes_over or key not in self._offers:
            return False
        offer = self._offers[key]
        damaged = {problem.path for problem in offer.dataset.damage}
        if any(offer.dataset.folder / file.path in damaged for file in offer.files):
            return False
        try:
            with Shard(self.folder, name, key, recount(offer.counts), taken=True) as shard:
                for file in offer.files:
                    shard.take(offer.dataset.folder, file)
        except FileNotFoundError:  # it was collected since
            return False
        return True

    def map_shards(
        self,
        work: Callable[[Shard, A], None],
        shards: Mapping[str, A],
        reads: Reads = NO_READS,
        recount: Callable[[Counts], Counts] = lambda counts: counts,
        *,
        accelerated: bool = False,
        sizes: Sizes = NO_SIZES,
    ) -> None:
        """Runs `work(shard, argument)` for every unfinished shard, wherever the runner runs shards.

        Args:
            work: Importable by name (it travels to other processes); writes through the shard it gets.
            shards: Argument by shard name.
            reads: A shard named here is taken over from an earlier dataset that has one with the same key.
            recount: The counts of a shard that is taken over, from those it was made with.
            accelerated: Whether `work` uses an accelerator where there is one.
            sizes: Bytes that shards read, where `reads` does not say it.

        Raises:
            StageFailed: A worker process died (killed, out of memory). Errors raised by `work` pass unchanged.
            StoreError: A shard was written elsewhere and does not appear here.
        """
        finished = self.finished()
        jobs = {
            name: partial(_run_shard, work, Shard(self.folder, name, self._shard_key(name, reads)), argument)
            for name, argument in shards.items()
            if name not in finished and not self._take_over(name, reads, recount)
        }
        done = len(shards) - len(jobs)
        read = sizes or {name: _bytes_of(reads[name]) for name in jobs if name in reads}
        try:
            with closing(self.runner.run(jobs, self.processes, accelerated=accelerated, sizes=read)) as ended:
                for name in ended:
                    if name and self.runner.remote:
                        self._await_shard(name)
                    done += name is not None
                    self.report(Progress(self.stage, done, len(shards), name or ""))
        except BrokenExecutor as error:
            raise StageFailed(
                f"stage {self.stage}: a worker process died (killed, or out of memory) after {done} of {len(shards)} "
                "shards; run it again: finished shards are kept; fewer workers need less memory"
            ) from error

    def _await_shard(self, name: str) -> None:
        """Waits until the files that another machine wrote are visible here; shared storage may be slow."""
        marker = self.folder / MARKERS / f"{name}.json"
        deadline = time.monotonic() + SEEN_WITHIN
        while not self._is_seen(marker):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"stage {self.stage}: shard {name} was made on another machine and is not in {self.folder} after "
                    f"{SEEN_WITHIN:.0f} s; mount one folder under the same path everywhere: docs/how-to/install.md"
                )
            time.sleep(0.1)

    def _is_seen(self, marker: Path) -> bool:
        try:
            return not any(check_size(self.folder / file.path, file) for file in self._marker(marker).files)
        except StoreError:
            return False


def _bytes_of(parts: Sequence[Path | str]) -> int:
    return sum(part.stat().st_size for part in parts if isinstance(part, Path))


def _run_shard(work: Callable[[Shard, A], None], shard: Shard, argument: A) -> None:
    start = time.perf_counter()
    with shard:
        work(shard, argument)
    log.info(
        "shard %s of %s: %.1f s, %s", shard.name, shard.folder.parent.name, time.perf_counter() - start, shard.counts
    )
