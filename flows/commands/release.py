"""Commands `arena release`: list, fetch and check releases."""

from pathlib import Path
from typing import Annotated

from flows.commands.options import FLAT
from flows.commands.terminal import show_json, show_list, show_rows, show_text
from flows.commands.transfer import show_transfer
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine, ReleaseFolder
from flows.pipeline.release_files import open_files
from flows.pipeline.upstream import Upstream, open_api
from schemas.errors import ReleaseError
from schemas.fetching import FetchReport, FetchSettings
from schemas.gate import GateSettings, Verdict
from schemas.identifiers import ReleaseName
from tasks.release.client import DatasetsApi, newest_release
from tasks.release.diffs import list_ends, note_other_diffs
from tasks.release.fetch import fetch_diffs, fetch_release
from tasks.release.gate import accept_release, check_release, find_standing, find_verdict, newest_accepted
from tasks.release.mirror import list_releases, note_others

LATEST = "latest"


def list_found(
    *,
    remote: bool = False,
    folder: Annotated[ReleaseFolder | None, FLAT] = None,
    upstream: Annotated[Upstream | None, FLAT] = None,
    json: bool = False,
) -> None:
    """List the releases in a local mirror.

    Args:
        remote: List Semantic Scholar's releases instead, and say which of them are here; needs no key.
        json: Print as JSON.
    """
    releases = (folder or ReleaseFolder()).releases
    here = list_releases(releases)
    rows = [{"release": release} for release in here]
    title = f"releases in {releases}"
    if remote:
        with open_api(upstream) as api:
            offered = api.releases()
        rows = [{"release": one, "here": find_standing(releases, one) if one in here else "no"} for one in offered]
        title = f"releases at {api.settings.url}"
    show_list(rows, title, json=json)
    for note in [] if json else [*note_others(releases), *note_other_diffs(releases)]:
        show_text(f"not a release: {note}")


def fetch(
    release: str = LATEST,
    /,
    *,
    settings: Annotated[FetchSettings | None, FLAT] = None,
    folder: Annotated[ReleaseFolder | None, FLAT] = None,
    upstream: Annotated[Upstream | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Fetch a release into the local mirror; a repeated call resumes where the last one stopped.

    Reads the API key from S2_API_KEY. The release is listed once it is complete.

    Args:
        release: Id of the release.
        json: Print the result as JSON.
    """
    releases = (folder or ReleaseFolder()).releases
    with open_api(upstream) as api, show_transfer() as transfer:
        name = _newest(api) if release == LATEST else release
        report = fetch_release(api, releases, name, settings or FetchSettings(), transfer)
    _show_reports([report], json)
    if not json:
        show_text(f"next: arena release check {report.name}")


def diff(
    start: str,
    end: str = LATEST,
    /,
    *,
    settings: Annotated[FetchSettings | None, FLAT] = None,
    folder: Annotated[ReleaseFolder | None, FLAT] = None,
    upstream: Annotated[Upstream | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Fetch the diffs between two releases into the folder `diffs` of the local mirror.

    Args:
        start: The earlier release.
        end: The later release.
        json: Print the result as JSON.
    """
    releases = (folder or ReleaseFolder()).releases
    with open_api(upstream) as api, show_transfer() as transfer:
        arrive = _newest(api) if end == LATEST else end
        reports = fetch_diffs(api, releases, (start, arrive), settings or FetchSettings(), transfer)
    _show_reports(reports, json)


def check(
    release: ReleaseName | None = None,
    /,
    *,
    accept: str | None = None,
    settings: Annotated[GateSettings | None, FLAT] = None,
    machine: Annotated[Machine | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Check that a release is complete, readable and like earlier releases; compute the digests of its files.

    A release that fails is refused (exit code 1), marked in the mirror's folder `quarantine` and skipped by the weekly
    schedule. The weekly job checks diffs; for a release that is only available through diffs, its verdict is shown.

    Args:
        release: Id of the release; left out: the newest.
        accept: The reason to accept a refused release; it is used from then on.
        json: Print as JSON.
    """
    machine = machine or Machine()
    known = list_releases(machine.releases)
    if release is None and not known:
        raise ReleaseError(f"no release in {machine.releases}; choose another --releases, or `arena release fetch`")
    verdict = _verdict(machine.releases, release or known[-1], settings or GateSettings())
    if accept is not None:
        verdict = accept_release(machine.releases, verdict.release, accept)
    rows: list[tables.Row] = []
    if verdict.accepted and verdict.release in known:
        rows = [
            {
                "dataset": name,
                "files": len(dataset.files),
                "MB": round(sum(file.size for file in dataset.files) / 1e6, 1),
                "digest": dataset.digest[:12],
            }
            for name, dataset in open_files(machine, verdict.release).items()
        ]
    _show_verdict(verdict, rows, json)
    if not verdict.accepted:
        count = sum(finding.refuses for finding in verdict.findings)
        raise ReleaseError(
            f"release {verdict.release} is refused because of {count} findings; the last accepted release is "
            f"{newest_accepted(machine.releases) or 'none'}; add --accept REASON to use it anyway"
        )


def _verdict(releases: Path, release: str, settings: GateSettings) -> Verdict:
    """Returns the gate's verdict on a whole release, or the weekly job's verdict on the diffs that lead to it."""
    if release in list_releases(releases) or release not in list_ends(releases):
        return check_release(releases, release, settings)
    if found := find_verdict(releases, release):
        return found
    raise ReleaseError(
        f"release {release} is only available through diffs, and they have no findings; "
        f"run: arena build --from-edition EDITION --release {release}"
    )


def _newest(api: DatasetsApi) -> str:
    if found := newest_release(api, ()):
        return found
    raise ReleaseError(f"{api.settings.url}: the API lists no releases; check --url")


def _show_reports(reports: list[FetchReport], json: bool) -> None:
    if json:
        show_json([report.model_dump(mode="json") for report in reports])
        return
    rows = [
        {
            "fetched": report.name,
            "files": report.files,
            "MB": round(report.bytes / 1e6, 1),
            "MB received": round(report.received / 1e6, 1),
            "restarted": report.restarts,
            "damaged": report.refetched,
        }
        for report in reports
    ]
    show_rows(rows, f"in {reports[0].folder.parent}", decimals=1)


def _show_verdict(verdict: Verdict, datasets: list[tables.Row], json: bool) -> None:
    if json:
        show_json({**verdict.model_dump(mode="json"), "accepted": verdict.accepted, "datasets": datasets})
        return
    if datasets:
        show_rows(datasets, f"release {verdict.release}", decimals=1)
    findings = [
        {
            "": "refused" if finding.refuses else "warning",
            "dataset": finding.dataset,
            "seen": finding.seen,
            "expected": finding.expected,
            "remedy": finding.remedy,
        }
        for finding in verdict.findings
    ]
    before = f"{len(verdict.compared_with)} earlier releases" if verdict.compared_with else "nothing: the first release"
    accepted = f", accepted because: {verdict.reason}" if verdict.reason else ""
    if findings:
        show_rows(findings, f"compared with {before}{accepted}")
    else:
        show_text(f"compared with {before}: as expected")
