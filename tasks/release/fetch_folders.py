"""Fetches folders of files over any number of rounds and publishes them when all are complete."""

import fcntl
import logging
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from schemas.errors import ReleaseError
from schemas.fetching import FetchedDataset, FetchManifest, FetchReport, FetchSettings, RetrySettings
from tasks.http.stop import stoppable_pool
from tasks.release.download import Downloader
from tasks.release.fetched import MANIFEST, read_manifest, write_record
from tasks.release.filenames import name_files
from tasks.release.filtering import RecordFilter
from tasks.release.targets import Links, Tally, Target, Withdrawn
from tasks.store.whole_files import fsync_path

log = logging.getLogger(__name__)

Ask = Callable[[], Sequence[str]]
"""Asks the API for the links to a folder's files."""

Progress = Callable[[Tally], None]


def silent(tally: Tally) -> None:
    """Reports nothing."""


class FolderFetch:
    """Fetches folders of files into a work folder and moves them to their final place when all are complete.

    Args:
        places: The final place and the work folder.
        settings: How many files at a time, how fast, how much disk space stays free.
        retry: When a server is asked again.
        progress: Called after every piece of a file.
    """

    def __init__(
        self, places: tuple[Path, Path], settings: FetchSettings, retry: RetrySettings, progress: Progress
    ) -> None:
        self._settings, self._retry, self._progress = settings, retry, progress
        self._place, self._work = places

    @contextmanager
    def lock(self) -> Generator[None]:
        """Lets one process at a time fetch into this place; the kernel frees the lock of a process that dies."""
        path = self._work.with_name(f"{self._work.name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.open("wb")
        except OSError as error:
            raise ReleaseError(f"{path}: cannot be written ({error.strerror}); choose another --releases") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ReleaseError(f"{self._work}: another process is fetching it; wait for that one") from error
            yield

    def run(self, asks: Mapping[str, Ask], keep: RecordFilter) -> FetchReport:
        """Fetches missing folders until their lists of files stay the same, and moves them to their place."""
        there = read_manifest(self._place)
        missing = {folder: ask for folder, ask in asks.items() if there is None or folder not in there.datasets}
        tally = Tally()
        if missing:
            with closing(Downloader(self._settings, self._retry, keep, self._progress)) as down:
                write_record(self._work / MANIFEST, self._describe(self._fetch_all(missing, down), missing))
                tally = down.tally
            there = self.finish()
        if there is None:
            raise ReleaseError(f"{self._place}: no dataset to fetch; choose with --datasets")
        return _report(self._place, there, tally)

    def finish(self) -> FetchManifest | None:
        """Moves complete folders to their place, also those that a killed process left, and returns what is there.

        Raises:
            ReleaseError: The place holds something that was not fetched.
        """
        there, arrived = read_manifest(self._place), read_manifest(self._work)
        if there is None and self._place.exists():
            raise ReleaseError(f"{self._place}: was not fetched by this program (no {MANIFEST}); move it away first")
        if arrived is None:
            return there
        for path in self._work.rglob(".*"):
            path.unlink()
        self._place.parent.mkdir(parents=True, exist_ok=True)
        if there is None:
            self._work.replace(self._place)
            fsync_path(self._place.parent)
            return arrived
        for folder in sorted({name.partition("/")[0] for name in arrived.datasets}):
            if (self._work / folder).exists():
                (self._work / folder).replace(self._place / folder)
        merged = FetchManifest(name=there.name, datasets=there.datasets | arrived.datasets)
        write_record(self._place / MANIFEST, merged)
        shutil.rmtree(self._work)
        return merged

    def _fetch_all(self, asks: Mapping[str, Ask], down: Downloader) -> list[Target]:
        for _ in range(self._settings.rounds):
            targets: dict[Target, Links] = {}
            for folder, ask in asks.items():
                links = Links(ask)
                names = name_files(links.paths)
                dataset = folder.partition("/")[0]
                targets |= {Target(self._work / folder, names[path], dataset, path): links for path in links.paths}
            waiting = {target: links for target, links in targets.items() if not down.is_done(target)}
            if not waiting:
                self._remove_others(asks, targets)
                return list(targets)
            self._fetch_round(waiting, down)
        raise ReleaseError(
            f"{self._work.name}: the list of files changed in each of {self._settings.rounds} rounds; try again later"
        )

    def _fetch_round(self, waiting: Mapping[Target, Links], down: Downloader) -> None:
        with stoppable_pool(self._settings.parallel) as pool:
            sizes = pool.map(lambda item: _measure(down, *item), waiting.items())
            self._check_space(dict(zip(waiting, sizes, strict=True)), down)
            running = [pool.submit(down.fetch, target, links) for target, links in waiting.items()]
            for future in as_completed(running):
                with suppress(Withdrawn):
                    future.result()

    def _check_space(self, sizes: Mapping[Target, int], down: Downloader) -> None:
        """Refuses a fetch that the disk cannot hold; a filtered dataset counts with the share expected to stay."""
        have = {target: target.have() for target in sizes}
        down.tally.total, down.tally.present = sum(sizes.values()), sum(have.values())
        kept = {target: self._settings.kept_share if down.filters(target) else 1.0 for target in sizes}
        needed = sum(max(size * kept[target] - have[target], 0) for target, size in sizes.items())
        filtered = sorted((size for target, size in sizes.items() if down.filters(target)), reverse=True)
        needed += sum(filtered[: self._settings.parallel]) + self._settings.spare_gib * 2**30
        free = shutil.disk_usage(self._work.parent).free
        if needed > free:
            raise ReleaseError(
                f"{self._work.name}: needs {needed / 2**30:,.2f} GiB in {self._work.parent}, where "
                f"{free / 2**30:,.2f} GiB are free; free some, keep fewer records "
                "(--keep-ids, --kept-share), or lower --spare-gib"
            )

    def _remove_others(self, asks: Mapping[str, Ask], targets: Mapping[Target, Links]) -> None:
        """Removes files that a list no longer has."""
        listed = {name for target in targets for name in (target.file, target.note)}
        for folder in asks:
            (self._work / folder).mkdir(parents=True, exist_ok=True)
            for path in (self._work / folder).iterdir():
                if path not in listed:
                    log.warning("%s: removed, it is no longer in the list of files", path)
                    path.unlink()

    def _describe(self, targets: Sequence[Target], folders: Iterable[str]) -> FetchManifest:
        datasets: dict[str, FetchedDataset] = {}
        for folder in folders:
            states = [target.state() for target in targets if target.folder == self._work / folder]
            files = sorted((state.done for state in states if state and state.done), key=lambda file: file.name)
            kept = next((state.kept for state in states if state), None)
            datasets[folder] = FetchedDataset(files=tuple(files), kept=kept)
        return FetchManifest(name=self._work.name, datasets=datasets)


def _measure(down: Downloader, target: Target, links: Links) -> int:
    try:
        return down.measure(target, links).size
    except Withdrawn:
        return 0


def _report(place: Path, manifest: FetchManifest, tally: Tally | None = None) -> FetchReport:
    tally = tally or Tally()
    files = [file for dataset in manifest.datasets.values() for file in dataset.files]
    return FetchReport(
        name=manifest.name,
        folder=place,
        files=len(files),
        bytes=sum(file.size for file in files),
        received=tally.received,
        restarts=tally.restarts,
        refetched=tally.refetched,
        renewed=tally.renewed,
    )
