"""Checks diffs: they must leave a release that looks like the last one."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from schemas.errors import ReleaseError
from schemas.fetching import UpstreamDataset
from schemas.gate import DatasetProfile, Finding, GateSettings, Verdict
from schemas.identifiers import DatasetName, ReleaseId
from schemas.release import ReleaseDataset
from tasks.release.diffs import DELETES, UPDATES, open_diffs
from tasks.release.gate import LOOK, REFETCH, DatasetCheck, earlier_profiles, find_verdict, keep_verdict
from tasks.release.profile import profile_files

ENOUGH = 100
"""Fewest updated records from which the share of filled fields is meaningful."""


def check_diffs(
    releases: Path,
    steps: tuple[str, str],
    rows: Mapping[DatasetName, int],
    settings: GateSettings,
    fingerprints: Path,
) -> Verdict:
    """Judges the diffs from one release to another, and quarantines the later release when they are refused.

    Args:
        releases: The mirror.
        steps: The earlier release and the later one.
        rows: Records of the earlier release by dataset; each of these must have a diff.
        settings: How closely to look, and how much may differ.
        fingerprints: As for `open_release`.
    """
    start, end = steps
    known = earlier_profiles(releases, end)[-1:]
    findings: list[Finding] = []
    try:
        for diff in open_diffs(releases, start, end, set(rows), fingerprints):
            for name, dataset in diff.datasets.items():
                checked = _DatasetDiff(cast(UpstreamDataset, name), dataset, settings)
                findings += checked.deletes(rows[name])
                findings += checked.updates(known[0].datasets.get(cast(UpstreamDataset, name)) if known else None)
    except ReleaseError as error:
        findings.append(Finding(dataset="", check="files", seen=str(error), expected="whole diffs", remedy=REFETCH))
    compared = (ReleaseId(start),)
    return keep_verdict(releases, Verdict(release=ReleaseId(end), compared_with=compared, findings=tuple(findings)))


def check_records(
    releases: Path,
    steps: tuple[str, str],
    rows: tuple[Mapping[DatasetName, int], Mapping[DatasetName, int]],
    settings: GateSettings,
) -> Verdict:
    """Judges the records after the diffs, and quarantines the later release when refused, unless a person accepted it.

    Args:
        releases: The mirror.
        steps: The earlier release and the later one.
        rows: Records by dataset before the diffs were applied, and after.
        settings: How much may differ.
    """
    start, end = (ReleaseId(step) for step in steps)
    known = find_verdict(releases, end)
    if known and known.accepted:
        return known
    findings = tuple(_judge_records(*rows, settings))
    return keep_verdict(releases, Verdict(release=end, compared_with=(start,), findings=findings))


def _judge_records(
    before: Mapping[DatasetName, int], after: Mapping[DatasetName, int], settings: GateSettings
) -> Iterator[Finding]:
    for name, rows in before.items():
        least, most = rows * settings.least_ratio, rows * settings.most_ratio
        if not least <= (now := after.get(name, 0)) <= most:
            yield Finding(
                dataset=name,
                check="rows",
                seen=f"{now:,} after the diffs",
                expected=f"{least:,.0f} to {most:,.0f}, the last release had {rows:,}",
                remedy=REFETCH if now < least else LOOK,
            )


class _DatasetDiff:
    """Judges the diff of one dataset."""

    def __init__(self, name: UpstreamDataset, dataset: ReleaseDataset, settings: GateSettings) -> None:
        self._name, self._settings = name, settings
        kinds = (UPDATES, DELETES)
        paths = {kind: [dataset.directory / f.name for f in dataset.files if f.name.startswith(kind)] for kind in kinds}
        self._updates, self._deletes = (profile_files(name, paths[kind], None, settings) for kind in kinds)

    def deletes(self, rows: int) -> Iterator[Finding]:
        """Yields a finding when the diff deletes more records than a normal week does."""
        most = rows * (1 - self._settings.least_ratio)
        if self._deletes.rows > max(most, self._settings.few):
            yield Finding(
                dataset=self._name,
                check="rows",
                seen=f"{self._deletes.rows:,} deletes",
                expected=f"at most {most:,.0f} of {rows:,} records",
                remedy=LOOK,
            )

    def updates(self, last: DatasetProfile | None) -> Iterator[Finding]:
        """Yields findings about unreadable lines, and about fields that are gone or changed since the last release."""
        check = DatasetCheck(self._name, self._updates, self._settings)
        yield from check.lines()
        if self._updates.sampled >= ENOUGH:
            yield from check.fields(last) if last is not None else check.needs()
