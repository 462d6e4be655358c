"""Compares a new release with the accepted ones before it; a refused release is quarantined, and nothing uses it.

Beside the releases are `profiles/<release>.json` (what every checked release looks like) and
`quarantine/<release>.json` (the findings about an unexpected release, and a person's reason for accepting it).
"""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

import numpy as np

from schemas.errors import ReleaseError, UsageError
from schemas.gate import DatasetProfile, Finding, GateSettings, ReleaseProfile, Verdict
from schemas.identifiers import ReleaseId
from tasks.release.fetched import read_record, write_record
from tasks.release.mirror import REQUIRED, list_releases
from tasks.release.profile import name_source, profile_release

Standing = Literal["accepted", "quarantined", "unchecked"]

PROFILES, QUARANTINE = "profiles", "quarantine"
NEEDED = {
    "papers": {"corpusid": "integer", "title": "string"},
    "abstracts": {"corpusid": "integer", "abstract": "string"},
    "citations": {"citingcorpusid": "integer", "citedcorpusid": "integer"},
    "s2orc": {"corpusid": "integer", "content.text": "string"},
    "s2orc_v2": {"corpusid": "integer", "body.text": "string"},
}
"""Fields that the first release of a mirror must have, when there is no earlier one to compare with."""

REFETCH = "move the release away and fetch it again; if it stays so, wait for the next"
REMEDY = "remove it and check the release again"
LOOK = "look at some records; accept with --accept REASON if Semantic Scholar meant it"


def check_release(releases: Path, release: str, settings: GateSettings) -> Verdict:
    """Compares a release with the accepted ones before it, stores its profile, and quarantines it when refused.

    A person's acceptance stays valid while the findings stay the same.

    Args:
        releases: The mirror.
        release: Id of a release in it.
        settings: How closely to look, and how much may differ.

    Raises:
        ReleaseError: There is no such release, or a profile cannot be read.
    """
    if release not in (known := list_releases(releases)):
        raise ReleaseError(f"release {release!r} is not in {releases}; there: {', '.join(known) or 'none'}")
    earlier = earlier_profiles(releases, release)[-settings.history :]
    try:
        findings = tuple(judge(_profiled(releases, release, settings), earlier, settings))
    except ReleaseError as error:
        findings = (Finding(dataset="", check="files", seen=str(error), expected="whole files", remedy=REFETCH),)
    compared = tuple(one.release for one in earlier)
    return keep_verdict(releases, Verdict(release=ReleaseId(release), compared_with=compared, findings=findings))


def keep_verdict(releases: Path, verdict: Verdict) -> Verdict:
    """Stores the verdict of a refused release, or removes that of one no longer refused, and returns the verdict.

    A person's acceptance of the same findings is carried over. A verdict that a person accepted stays: a check of diffs
    finds less than a check of the records after them.
    """
    path = _verdict_path(releases, verdict.release)
    before = find_verdict(releases, verdict.release)
    if verdict.accepted:
        if before and not before.accepted:
            path.unlink()
        return verdict
    if before and before.findings == verdict.findings:
        verdict = verdict.model_copy(update={"reason": before.reason})
    write_record(path, verdict)
    return verdict


def accept_release(releases: Path, release: str, reason: str) -> Verdict:
    """Accepts a refused release and stores the reason with its verdict.

    Raises:
        UsageError: The release is not refused, or no reason is given.
    """
    verdict = find_verdict(releases, release)
    if verdict is None:
        raise UsageError(f"release {release} is not refused; there is nothing to accept")
    if not reason.strip():
        raise UsageError("the reason is empty; say why the release is accepted with --accept REASON")
    verdict = verdict.model_copy(update={"reason": reason.strip()})
    write_record(_verdict_path(releases, release), verdict)
    return verdict


def find_verdict(releases: Path, release: str) -> Verdict | None:
    """Returns the verdict that refused a release or its diffs, with any later acceptance; None when never refused.

    Raises:
        ReleaseError: Its verdict cannot be read.
    """
    return read_record(Verdict, _verdict_path(releases, release), REMEDY)


def find_standing(releases: Path, release: str) -> Standing:
    """Returns whether a release is unchecked, accepted (by the gate or a person) or quarantined.

    Raises:
        ReleaseError: Its verdict cannot be read.
    """
    verdict = find_verdict(releases, release)
    if verdict is not None:
        return "accepted" if verdict.accepted else "quarantined"
    return "accepted" if (releases / PROFILES / f"{release}.json").exists() else "unchecked"


def list_refused(releases: Path) -> list[ReleaseId]:
    """Returns the releases that were refused and not accepted since, oldest first.

    Raises:
        ReleaseError: A verdict cannot be read.
    """
    names = sorted(path.stem for path in (releases / QUARANTINE).glob("*.json"))
    return [ReleaseId(name) for name in names if find_standing(releases, name) == "quarantined"]


def newest_accepted(releases: Path) -> ReleaseId | None:
    """Returns the newest accepted release of the mirror: the one that scheduled runs use."""
    newest_first = reversed(list_releases(releases))
    return next((release for release in newest_first if find_standing(releases, release) == "accepted"), None)


def judge(profile: ReleaseProfile, earlier: Sequence[ReleaseProfile], settings: GateSettings) -> Iterator[Finding]:
    """Yields what is unexpected in a release.

    Args:
        profile: What the release looks like.
        earlier: Profiles of the accepted releases before it, oldest first.
        settings: How much may differ.
    """
    yield from _judge_names(profile, earlier)
    for name, seen in profile.datasets.items():
        known = {
            date.fromisoformat(one.release).toordinal(): one.datasets[name]
            for one in earlier
            if name in one.datasets and one.datasets[name].kept == seen.kept
        }
        check = DatasetCheck(name, seen, settings)
        yield from check.lines()
        if known:
            day = date.fromisoformat(profile.release).toordinal()
            yield from check.size("rows", day, {moment: one.rows for moment, one in known.items()})
            yield from check.size("bytes", day, {moment: one.bytes for moment, one in known.items()})
            yield from check.fields(known[max(known)])
        else:
            yield from check.needs()


def _judge_names(profile: ReleaseProfile, earlier: Sequence[ReleaseProfile]) -> Iterator[Finding]:
    last = set(earlier[-1].datasets) if earlier else set[str]()
    has = set[str](profile.datasets)
    found = ", ".join(sorted(has))
    for name in sorted((last | set(REQUIRED)) - has):
        replaced = name == "s2orc" and "s2orc_v2" in has
        yield Finding(
            refuses=not replaced,
            dataset=name,
            check="datasets",
            seen=f"absent (there: {found})",
            expected="one of the datasets, as before" if name in last else "one of the datasets",
            remedy="none, s2orc_v2 takes its place" if replaced else "fetch it: `arena release fetch`",
        )
    if last and (new := sorted(has - last)):
        yield Finding(
            refuses=False,
            dataset=", ".join(new),
            check="datasets",
            seen="there",
            expected=f"only {', '.join(sorted(last))}",
            remedy="none, unless it was not meant",
        )


class DatasetCheck:
    """Compares one dataset with what is expected of it."""

    def __init__(self, name: str, seen: DatasetProfile, settings: GateSettings) -> None:
        self._name, self._seen, self._settings = name, seen, settings

    def lines(self) -> Iterator[Finding]:
        """Yields findings about unreadable lines and repeated keys."""
        for count, check, most, what in (
            (self._seen.unreadable, "unreadable", self._settings.unreadable, "lines that are no JSON object"),
            (self._seen.duplicates, "duplicates", self._settings.duplicates, "records whose primary key came before"),
        ):
            if count > max(most * self._seen.sampled, self._settings.few):
                share = f"{count / self._seen.sampled:.1%} of {self._seen.sampled:,} {what}"
                yield self._finding(check, share, f"at most {most:.1%}", REFETCH)

    def size(self, check: str, day: int, before: dict[int, int]) -> Iterator[Finding]:
        """Yields a finding about a count off the trend, or far from the last one when there is no trend yet."""
        seen, last = getattr(self._seen, check), before[max(before)]
        if len(before) >= 3:
            days = np.array(list(before)) - day
            expected = float(np.polyval(np.polyfit(days, list(before.values()), 1), 0))
            least, most = expected * (1 - self._settings.tolerance), expected * (1 + self._settings.tolerance)
            basis = f"about {expected:,.0f}, the trend of {len(before)} releases"
        else:
            least, most = last * self._settings.least_ratio, last * self._settings.most_ratio
            basis = f"{least:,.0f} to {most:,.0f}, the last had {last:,}"
        if not least <= seen <= most:
            yield self._finding(check, f"{seen:,}", basis, REFETCH if seen < least else LOOK)

    def fields(self, last: DatasetProfile) -> Iterator[Finding]:
        """Yields findings about fields that are gone, new, of another type, or filled much less often."""
        for field, before in last.fields.items():
            if last.fill(field) < self._settings.rare or before.type is None:
                continue
            now, place = self._seen.fields.get(field), f"field {field}"
            if now is None:
                yield self._finding("fields", f"{place}: absent", f"filled in {last.fill(field):.0%} of records", LOOK)
            elif self._seen.fill(field) < last.fill(field) * (1 - self._settings.fill_drop):
                seen = f"{place}: filled in {self._seen.fill(field):.1%} of records"
                yield self._finding("fill", seen, f"{last.fill(field):.1%}, as in the last release", LOOK)
            elif now.type != before.type:
                yield self._finding("types", f"{place}: {now.type}", f"{before.type}, as in the last release", LOOK)
        new = [name for name in self._seen.fields.keys() - last.fields if self._seen.fill(name) >= self._settings.rare]
        if new:
            expected = "the fields of the last release"
            yield self._finding("fields", f"new: {', '.join(sorted(new))}", expected, "none", refuses=False)

    def needs(self) -> Iterator[Finding]:
        """Yields findings about missing fields that the pipeline needs."""
        for field, kind in NEEDED.get(self._name, {}).items():
            now, fill = self._seen.fields.get(field), self._seen.fill(field)
            if now is None or now.type != kind or fill < self._settings.rare:
                seen = f"field {field}: {now.type or 'nothing' if now else 'absent'}, filled in {fill:.1%} of records"
                yield self._finding("fields", seen, f"{kind} in at least {self._settings.rare:.0%}", LOOK)

    def _finding(self, check: str, seen: str, expected: str, remedy: str, *, refuses: bool = True) -> Finding:
        record = {"refuses": refuses, "dataset": self._name, "check": check}
        return Finding.model_validate({**record, "seen": seen, "expected": expected, "remedy": remedy})


def earlier_profiles(releases: Path, release: str) -> list[ReleaseProfile]:
    """Returns the profiles of the accepted releases before this one, oldest first."""
    names = sorted(path.stem for path in (releases / PROFILES).glob("*.json"))
    wanted = [name for name in names if name < release and find_standing(releases, name) == "accepted"]
    found = [read_record(ReleaseProfile, releases / PROFILES / f"{name}.json", REMEDY) for name in wanted]
    return [profile for profile in found if profile]


def _profiled(releases: Path, release: str, settings: GateSettings) -> ReleaseProfile:
    path = releases / PROFILES / f"{release}.json"
    profile = read_record(ReleaseProfile, path, REMEDY)
    if profile is None or profile.source != name_source(releases, release, settings):
        profile = profile_release(releases, release, settings)
        write_record(path, profile)
    return profile


def _verdict_path(releases: Path, release: str) -> Path:
    return releases / QUARANTINE / f"{release}.json"
