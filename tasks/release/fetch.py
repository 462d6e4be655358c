"""Fetches a whole release, or what changed between two, into the local mirror.

Everything is fetched into `<releases>/.fetching/`, where `mirror` does not look, and renamed to its place when all of
it is complete. A release is `<releases>/<release>/<dataset>/<files>`; a diff is
`<releases>/diffs/<from>_<to>/<dataset>/{updates,deletes}/<files>`; both hold a `manifest.json`. Of a dataset of which
only some records stay, each file is fetched as it is and filtered when it is complete: an interruption costs no byte of
it (only the filtering of that file is done again), and the disk holds at most `parallel` whole files of it.
"""

import fcntl
import logging
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from schemas.errors import ReleaseError, UsageError
from schemas.fetching import Diff, FetchedDataset, FetchManifest, FetchReport, FetchSettings
from tasks.release.client import DatasetsApi, check_release
from tasks.release.download import Downloader
from tasks.release.fetched import MANIFEST, read_manifest, write_manifest
from tasks.release.filenames import name_files
from tasks.release.filtering import RecordFilter
from tasks.release.targets import Links, Tally, Target, Withdrawn
from tasks.store.shard import fsync_path

log = logging.getLogger(__name__)

FETCHING = ".fetching"
DIFFS = "diffs"
Ask = Callable[[], Sequence[str]]
Progress = Callable[[Tally], None]


def _silent(tally: Tally) -> None:
    """Tells nobody."""


def fetch_release(
    api: DatasetsApi, releases: Path, release: str, settings: FetchSettings, progress: Progress = _silent
) -> FetchReport:
    """Brings a release into the mirror; what is there already is not asked for again.

    Args:
        api: Who gives the links.
        releases: The mirror.
        release: Id of the release.
        settings: Which datasets, which records of them, and what of the machine.
        progress: Told after every piece of a file, from any thread.

    Raises:
        ReleaseError: No such release or dataset, no disk space, a file damaged twice, or another process fetches it.
        TransientError: A server stays away after all tries; what came is kept.
        UsageError: No key, or the release is there by another choice of records.
    """
    check_release(release)
    keep = RecordFilter.load(settings)
    fetch = _Fetch(api, (releases / release, releases / FETCHING / release), settings, progress)
    with fetch.alone():
        there = fetch.finish()
        if there and settings.datasets and set(settings.datasets) <= set(there.datasets):
            names = list(settings.datasets)
        else:
            names = choose_datasets(api.datasets(release), settings.datasets)
        _check_choice(there, keep, names)
        return fetch.run({name: _ask_files(api, release, name) for name in names}, keep)


def fetch_diffs(
    api: DatasetsApi, releases: Path, pair: tuple[str, str], settings: FetchSettings, progress: Progress = _silent
) -> list[FetchReport]:
    """Brings what changed from one release to another, one folder for each pair of consecutive releases, oldest first.

    Args:
        api: Who gives the links.
        releases: The mirror; the diffs come into its folder `diffs`.
        pair: The release to start from, and the one to arrive at.
        settings: Which datasets; records are not chosen among.
        progress: Told after every piece of a file, from any thread.

    Raises:
        As `fetch_release` does.
    """
    start, end = map(check_release, pair)
    names = choose_datasets(api.datasets(end), settings.datasets)
    steps = {name: [(diff.from_release, diff.to_release) for diff in api.diffs(start, end, name)] for name in names}
    pairs = steps[names[0]]
    if different := [name for name in names if steps[name] != pairs]:
        raise ReleaseError(f"diffs from {start} to {end}: {names[0]} and {different[0]} do not go by the same releases")
    reports: list[FetchReport] = []
    for step in pairs:
        name = "_".join(step)
        fetch = _Fetch(api, (releases / DIFFS / name, releases / FETCHING / DIFFS / name), settings, progress)
        asks: dict[str, Ask] = {}
        for dataset in names:
            asks[f"{dataset}/updates"] = _ask_diff(api, step, dataset, lambda diff: diff.update_files)
            asks[f"{dataset}/deletes"] = _ask_diff(api, step, dataset, lambda diff: diff.delete_files)
        with fetch.alone():
            fetch.finish()
            reports.append(fetch.run(asks, RecordFilter(None, full_text_only=False)))
    return reports


def choose_datasets(offered: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Datasets to fetch: those wanted, or what the pipeline reads, of full texts the newest form.

    Raises:
        ReleaseError: One is not offered.
    """
    full_texts = "s2orc" if "s2orc" in offered and "s2orc_v2" not in offered else "s2orc_v2"
    names = list(dict.fromkeys(wanted)) or ["papers", "abstracts", "citations", full_texts]
    if missing := [name for name in names if name not in offered]:
        raise ReleaseError(
            f"the release has no dataset {', '.join(missing)} (it has: {', '.join(offered)}); choose with --datasets"
        )
    return names


def _check_choice(there: FetchManifest | None, keep: RecordFilter, names: Sequence[str]) -> None:
    for name in names:
        if there and name in there.datasets and (kept := there.datasets[name].kept) != keep.describe(name):
            raise UsageError(
                f"{name} of {there.name} is there with {kept or 'all records'}, asked for is "
                f"{keep.describe(name) or 'all records'}; move the release away first"
            )


def _ask_files(api: DatasetsApi, release: str, dataset: str) -> Ask:
    def ask() -> Sequence[str]:
        if files := api.files(release, dataset):
            return files
        raise ReleaseError(f"dataset {dataset} of release {release}: the API lists no files; try again later")

    return ask


def _ask_diff(api: DatasetsApi, step: tuple[str, str], dataset: str, part: Callable[[Diff], Sequence[str]]) -> Ask:
    return lambda: part(api.diffs(*step, dataset)[0])


class _Fetch:
    """Some folders of files on their way to one place.

    Args:
        api: Knows how long a server is asked again.
        places: Where everything is in the end, and where it is until then.
        settings: What of the machine it may take.
        progress: Told after every piece of a file.
    """

    def __init__(
        self, api: DatasetsApi, places: tuple[Path, Path], settings: FetchSettings, progress: Progress
    ) -> None:
        self._api, self._settings, self._progress = api, settings, progress
        self._place, self._work = places

    @contextmanager
    def alone(self) -> Generator[None]:
        """Lets one process at a time fetch this; the kernel frees the lock of a process that dies."""
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
        """Fetches what is not there until the lists of files stay the same, and puts it in its place."""
        there = read_manifest(self._place)
        missing = {folder: ask for folder, ask in asks.items() if there is None or folder not in there.datasets}
        tally = Tally()
        if missing:
            limits = httpx.Limits(max_connections=self._settings.parallel)
            timeout = httpx.Timeout(self._api.settings.timeout_s)
            with httpx.Client(timeout=timeout, limits=limits, follow_redirects=True) as http:
                down = Downloader(http, self._settings, self._api.settings, keep, self._progress)
                write_manifest(self._work, self._describe(self._fetch_all(missing, down), missing))
                tally = down.tally
            there = self.finish()
        if there is None:
            raise ReleaseError(f"{self._place}: there is nothing to fetch; choose with --datasets")
        return _report(self._place, there, tally)

    def finish(self) -> FetchManifest | None:
        """Puts what was fetched completely in its place, also what a process that died then left; says what is there.

        Raises:
            ReleaseError: Something else is in that place.
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
        write_manifest(self._place, merged)
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
            f"{self._work.name}: the list of files was another each of {self._settings.rounds} times; try again later"
        )

    def _fetch_round(self, waiting: Mapping[Target, Links], down: Downloader) -> None:
        with ThreadPoolExecutor(self._settings.parallel) as pool:
            try:
                sizes = pool.map(lambda item: _measure(down, *item), waiting.items())
                self._check_space(dict(zip(waiting, sizes, strict=True)), down)
                running = [pool.submit(down.fetch, target, links) for target, links in waiting.items()]
                for future in as_completed(running):
                    with suppress(Withdrawn):
                        future.result()
            except BaseException:
                down.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _check_space(self, sizes: Mapping[Target, int], down: Downloader) -> None:
        """Refuses what the disk cannot hold; of a filtered dataset the share that is expected to stay."""
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
                    log.warning("%s: is no longer in the list of files, removed", path)
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
