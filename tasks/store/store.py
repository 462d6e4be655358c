"""The store of datasets: builds each dataset once, publishes it with one rename, finds and verifies it."""

import errno
import fcntl
import logging
import multiprocessing
import shutil
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from schemas.errors import ArenaError, StageFailed, StoreError
from schemas.identifiers import Key
from schemas.llm_settings import LlmAccess
from schemas.manifest import FILE_FORMAT, STORE_FORMAT, Fingerprint, Manifest, Ref, ReleaseEntry, content_digest
from schemas.messages import describe
from schemas.release import ReleaseDataset
from schemas.settings import Resources, Settings
from tasks.store.dataset import Dataset
from tasks.store.hashes import VERIFIED, remember
from tasks.store.provenance import git_commit, list_files, package_versions
from tasks.store.shard import MARKERS, SCRATCH
from tasks.store.shard_runner import LOCAL, ShardRunner, local_workers
from tasks.store.stage import AnyStage
from tasks.store.storage_check import check_storage
from tasks.store.usage import UsageMeter
from tasks.store.whole_files import fsync_path, write_record, write_whole
from tasks.store.workspace import Progress, Workspace

log = logging.getLogger(__name__)

Input = Ref | ReleaseDataset

UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)
"""Errors of a store that can be read, though nothing can be written to it now."""

READERS = ("duckdb", "polars", "pyarrow", "faiss", "tantivy")
"""Packages whose errors may mean that a file was damaged after it was hashed."""


class Request(NamedTuple):
    """A stage with everything that decides its result."""

    stage: AnyStage
    settings: Settings
    inputs: Mapping[str, Input]

    @property
    def key(self) -> Key:
        """The content key: hash of name, version, settings and the inputs' digests."""
        return self.fingerprint.key

    @property
    def fingerprint(self) -> Fingerprint:
        """What decides the key."""
        digests = {name: item.digest for name, item in self.inputs.items()}
        return Fingerprint(self.stage.name, self.stage.version, self.settings.model_dump(mode="json"), digests)


class Built(NamedTuple):
    """The result of `build`: the dataset's name, and whether the stage's function ran."""

    ref: Ref
    executed: bool


class _Means(NamedTuple):
    """What a stage is executed with; none of it changes a result."""

    resources: Resources
    report: Callable[[Progress], None]
    llm: LlmAccess | None
    runner: ShardRunner
    again: frozenset[str]


class Store:
    """A folder of content-addressed datasets.

    A store that exists is opened for reading even where nothing can be written to it.

    Args:
        root: Created when absent.

    Raises:
        StoreError: `root` cannot be created, was written by a newer version of this project, or lies on a file system
            that is not fit for a store.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        try:
            self._prepare()
        except OSError as error:
            if error.errno not in UNWRITABLE or not (self.root / "editions").is_dir():
                raise StoreError(
                    f"store {root}: cannot be written ({error.strerror}); choose another --root"
                ) from error
            log.info("store %s: is only read (%s)", root, error.strerror)
        found = self._read_format()
        if found != STORE_FORMAT:  # what an older version wrote stays; what is added now cannot be read by it
            with suppress(OSError):
                write_whole(self.root / "format", f"{STORE_FORMAT}\n".encode())

    def _prepare(self) -> None:
        """Creates what is missing in the root, and checks its file system."""
        self.root.mkdir(parents=True, exist_ok=True)
        for name in (".staging", ".locks", ".trash", VERIFIED, "editions"):
            (self.root / name).mkdir(exist_ok=True)
        check_storage(self.root)

    def _read_format(self) -> int:
        path = self.root / "format"
        found = path.read_text(errors="replace").strip() if path.exists() else "0"
        if not found.isdigit() or int(found) > STORE_FORMAT:
            raise StoreError(
                f"store {self.root}: its format is {found!r}, this version reads up to {STORE_FORMAT}; "
                "update research-arena or choose another --root; if no newer version ever wrote here, the file "
                f"{path} was damaged: delete it, and the next command writes it anew"
            )
        return int(found)

    def folder(self, ref: Ref) -> Path:
        """Returns the folder of a dataset."""
        return self.root / ref.stage / ref.key

    def find(self, stage: str, key: Key) -> Dataset | None:
        """The dataset when it is there and whole (manifest readable, every file of the right size)."""
        dataset = Dataset(self.root / stage / key)
        try:
            return None if dataset.problems() else dataset
        except StoreError:
            return None

    def find_whole(self, stage: str, key: Key) -> Dataset | None:
        """The dataset when its content is whole, and no damaged copy of an input was replaced since it was built."""
        dataset = self.find(stage, key)
        if dataset is None:
            return None
        if dataset.damage:
            path, what = dataset.damage[0]
            log.warning("dataset %s/%s is damaged: %s %s; it is built again when it is needed", stage, key, path, what)
            return None
        if source := self.mended_input(dataset):
            log.warning("dataset %s/%s was made before its damaged input %s was replaced", stage, key, source)
            return None
        return dataset

    def mended_input(self, dataset: Dataset) -> str | None:
        """Returns the name of an input of which a damaged copy was replaced since the dataset was built."""
        then = dataset.manifest.inputs_mended
        now = self._mended(dataset.manifest.inputs)
        return next((name for name, times in now.items() if times > then.get(name, 0)), None)

    def _mended(self, inputs: Mapping[str, object]) -> dict[str, int]:
        """Returns how often damaged copies of the inputs were replaced; those of which none was are left out."""
        found = {name: self.find(ref.stage, ref.key) for name, ref in inputs.items() if isinstance(ref, Ref)}
        return {name: dataset.manifest.mended for name, dataset in found.items() if dataset and dataset.manifest.mended}

    def open(self, ref: Ref) -> Dataset:
        """The dataset named `ref`; its content is hashed before the first of its files is read.

        Raises:
            StoreError: It is absent, damaged, or has other content than `ref` says.
        """
        dataset = self.find(ref.stage, ref.key)
        if dataset is None:
            raise StoreError(
                f"dataset {ref.stage}/{ref.key} is missing or damaged in {self.root}; run: arena rerun {ref.stage}"
            )
        if dataset.manifest.digest != ref.digest:
            raise StoreError(
                f"dataset {ref.stage}/{ref.key}: content is {dataset.manifest.digest[:12]}, "
                f"expected {ref.digest[:12]}; it was rebuilt since: run the stages after it again"
            )
        return dataset

    def published(self, stage: str) -> tuple[Dataset, ...]:
        """Every whole dataset of a stage, newest first."""
        found = [self.find(stage, Key(path.name)) for path in (self.root / stage).glob("*") if path.is_dir()]
        return tuple(sorted((d for d in found if d), key=lambda d: (d.manifest.started, d.ref.key), reverse=True))

    def build(
        self,
        request: Request,
        resources: Resources | None = None,
        *,
        force: bool = False,
        report: Callable[[Progress], None] = lambda progress: None,
        llm: LlmAccess | None = None,
        runner: ShardRunner = LOCAL,
        again: frozenset[str] = frozenset(),
    ) -> Built:
        """Returns the dataset of `request`, executing its stage only when it is not there.

        Safe to call from several processes at once: one executes, the others wait and find the dataset. After a kill,
        the next call goes on at the first unfinished shard.

        Args:
            request: The stage with its settings and inputs.
            resources: What the machine gives.
            force: Execute although the dataset is there.
            report: Receives progress.
            llm: How to reach a language model, for stages that ask one.
            runner: Where shards run.
            again: With `force`, outcomes of the subjects to ask again; the dataset's other answers are kept.

        Raises:
            StageFailed: The stage's function raised something unexpected.
            ArenaError: As the stage says (bad input, missing dependency, full disk ...).
        """
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise StageFailed(
                "a worker process is importing the script that builds; put what the script does under "
                "`if __name__ == '__main__':`"
            )
        stage, key = request.stage, request.key
        before = self.find_whole(stage.name, key)
        if before and not force:
            return Built(before.ref, executed=False)
        with self._lock(stage.name, key):
            found = self.find_whole(stage.name, key)
            if found and not (force and before and before.manifest.started == found.manifest.started):
                return Built(found.ref, executed=False)  # another process has built it while this one waited
            staging = self.root / ".staging" / stage.name / key
            if found:
                shutil.rmtree(staging, ignore_errors=True)
            means = _Means(resources or Resources(), report, llm, runner, again)
            return Built(self._execute(request, staging, means), executed=True)

    @contextmanager
    def _lock(self, stage: str, key: Key) -> Generator[None]:
        """Holds the kernel's lock on the key: released even by kill -9."""
        with (self.root / ".locks" / f"{stage}-{key}").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("stage %s: another process is building %s, waiting for it", stage, key)
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _execute(self, request: Request, staging: Path, means: _Means) -> Ref:
        stage = request.stage
        started, clock = datetime.now(UTC), time.perf_counter()
        try:
            staging.mkdir(parents=True, exist_ok=True)
            inputs = {
                name: self.open(item).require_whole() if isinstance(item, Ref) else item
                for name, item in request.inputs.items()
            }
            there = self.find(stage.name, request.key)
            workspace = Workspace(
                stage.name,
                staging,
                request.settings,
                inputs,
                means.resources,
                self.published(stage.name),
                means.report,
                means.llm,
                stage.version,
                # of a damaged dataset, whole shards are taken; else it was forced or made of a damaged input
                takes_over=there is None or bool(there.damage),
                runner=means.runner,
                again=means.again,
            )
            resumed = workspace.resume()
            log.info("stage %s: building %s (%d shards kept)", stage.name, request.key, resumed)
            meter = UsageMeter(local_workers)
            stage(workspace)
            seconds = round(time.perf_counter() - clock, 3)
            manifest = _describe(request, workspace, started, seconds, resumed)
            measured = {"inputs_mended": self._mended(request.inputs), "usage": meter.stop(workspace.processes)}
            return self._publish(staging, manifest.model_copy(update=measured))
        except ArenaError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(
                    f"stage {stage.name}: no space left under {self.root}; free some and run again: "
                    "finished shards are kept"
                ) from error
            self._require_whole_inputs(request, error)
            raise _stage_failed(stage, error) from error

    def _require_whole_inputs(self, request: Request, error: Exception) -> None:
        """Raises StoreError when a library failed to read because an input was damaged after it was opened."""
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0].lstrip("_") in READERS:
            for ref in request.inputs.values():
                if isinstance(ref, Ref) and (dataset := self.open(ref)).problems(check_hashes=True):
                    dataset.require_whole()

    def _publish(self, staging: Path, manifest: Manifest) -> Ref:
        final = self.root / manifest.stage / manifest.key
        existing = self.find_whole(manifest.stage, manifest.key)
        if existing and existing.manifest.digest == manifest.digest:
            shutil.rmtree(staging)
            log.info("stage %s: rebuilt to the same bytes", manifest.stage)
            return existing.ref
        if replaced := self.find(manifest.stage, manifest.key):
            mended = replaced.manifest.mended + bool(replaced.damage)
            manifest = manifest.model_copy(update={"mended": mended})
        write_record(staging / "manifest.json", manifest)
        shutil.rmtree(staging / SCRATCH, ignore_errors=True)
        final.parent.mkdir(exist_ok=True)
        if final.exists():
            final.rename(self.root / ".trash" / f"{manifest.stage}-{manifest.key}-{time.time_ns()}")
        staging.rename(final)
        fsync_path(final.parent)
        remember(final, manifest)
        shutil.rmtree(final / MARKERS, ignore_errors=True)
        log.info(
            "stage %s: published %s in %.1f s, %s", manifest.stage, manifest.key, manifest.seconds, manifest.counts
        )
        return manifest.ref


def _describe(request: Request, made: Workspace[Settings], started: datetime, seconds: float, resumed: int) -> Manifest:
    files = list_files(made.folder, made.described())
    return Manifest(
        file_format=FILE_FORMAT,
        stage=request.stage.name,
        version=request.stage.version,
        key=request.key,
        digest=content_digest(files),
        parameters=request.settings.model_dump(mode="json"),
        inputs={name: _input_entry(item) for name, item in request.inputs.items()},
        files=files,
        counts=made.counts(),
        started=started,
        seconds=seconds,
        shards_resumed=resumed,
        shards_taken=made.taken(),
        shards=made.offered(),
        packages=package_versions(),
        git_commit=git_commit(),
    )


def _input_entry(item: Input) -> Ref | ReleaseEntry:
    if isinstance(item, Ref):
        return item
    size = sum(file.size for file in item.files)
    return ReleaseEntry(
        release=item.release, dataset=item.dataset, files=len(item.files), digest=item.digest, size=size
    )


def _stage_failed(stage: AnyStage, error: Exception) -> StageFailed:
    return StageFailed(
        f"stage {stage.name}: {type(error).__name__}: {describe(error)}; "
        "fix that and run it again: finished shards are kept"
    )
