"""Fetches a whole release, or the diffs between two, into the local mirror.

Everything is fetched into `<releases>/.fetching/`, which `mirror` ignores, and renamed to its place when all of it is
complete. A release is `<releases>/<release>/<dataset>/<files>`; a diff is
`<releases>/diffs/<from>_<to>/<dataset>/{updates,deletes}/<files>`; both hold a `manifest.json`. When only some records
of a dataset stay, each file is fetched whole and filtered once it is complete: an interruption costs no byte of it
(only the filtering of that file is repeated), and the disk holds at most `parallel` whole files of the dataset.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from schemas.errors import ReleaseError, UsageError
from schemas.fetching import Diff, FetchManifest, FetchReport, FetchSettings
from tasks.release.client import DatasetsApi, check_release
from tasks.release.diffs import DIFFS
from tasks.release.fetch_folders import Ask, FolderFetch, Progress, silent
from tasks.release.filtering import RecordFilter

FETCHING = ".fetching"


def fetch_release(
    api: DatasetsApi, releases: Path, release: str, settings: FetchSettings, progress: Progress = silent
) -> FetchReport:
    """Fetches a release into the mirror; datasets that are there are not fetched again.

    Args:
        api: Gives the links.
        releases: The mirror.
        release: Id of the release.
        settings: Which datasets and which of their records; how much of the machine to use.
        progress: Called after every piece of a file, from any thread.

    Raises:
        ReleaseError: No such release or dataset, no disk space, a file damaged twice, or another process fetches it.
        TransientError: A server was busy or out of reach at every try; what was received is kept.
        UsageError: No key, or the mirror has the release with another choice of records.
    """
    check_release(release)
    keep = RecordFilter.load(settings)
    places = (releases / release, releases / FETCHING / release)
    fetch = FolderFetch(places, settings, api.settings, progress)
    with fetch.lock():
        there = fetch.finish()
        if there and settings.datasets and set(settings.datasets) <= set(there.datasets):
            names = list(settings.datasets)
        else:
            names = choose_datasets(api.datasets(release), settings.datasets)
        _check_choice(there, keep, names)
        return fetch.run({name: _ask_files(api, release, name) for name in names}, keep)


def fetch_diffs(
    api: DatasetsApi, releases: Path, pair: tuple[str, str], settings: FetchSettings, progress: Progress = silent
) -> list[FetchReport]:
    """Fetches the diffs from one release to another, one folder for each pair of consecutive releases, oldest first.

    Args:
        api: Gives the links.
        releases: The mirror; the diffs go into its folder `diffs`.
        pair: The release to start from and the one to arrive at.
        settings: Which datasets; all records of a diff are kept.
        progress: Called after every piece of a file, from any thread.

    Raises:
        As `fetch_release` does.
    """
    start, end = map(check_release, pair)
    names = choose_datasets(api.datasets(end), settings.datasets)
    steps = {name: [(diff.from_release, diff.to_release) for diff in api.diffs(start, end, name)] for name in names}
    pairs = steps[names[0]]
    if different := [name for name in names if steps[name] != pairs]:
        raise ReleaseError(
            f"diffs from {start} to {end}: those of {names[0]} and {different[0]} pass through different releases; "
            f"fetch the whole release {end} instead"
        )
    reports: list[FetchReport] = []
    for step in pairs:
        name = "_".join(step)
        places = (releases / DIFFS / name, releases / FETCHING / DIFFS / name)
        fetch = FolderFetch(places, settings, api.settings, progress)
        asks: dict[str, Ask] = {}
        for dataset in names:
            asks[f"{dataset}/updates"] = _ask_diff(api, step, dataset, lambda diff: diff.update_files)
            asks[f"{dataset}/deletes"] = _ask_diff(api, step, dataset, lambda diff: diff.delete_files)
        with fetch.lock():
            fetch.finish()
            reports.append(fetch.run(asks, RecordFilter(None, full_text_only=False)))
    return reports


def choose_datasets(offered: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the datasets to fetch: the wanted ones, else what the pipeline reads with the newest form of full texts.

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
