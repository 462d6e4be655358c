"""The gate: an ordinary week passes, a broken release is refused with what was seen, expected and what to do."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ReleaseError, UsageError
from schemas.fetching import FetchedDataset, FetchManifest
from schemas.gate import GateSettings, Verdict
from tasks.demo.release import SyntheticSettings, write_release
from tasks.release.fetched import MANIFEST, write_record
from tasks.release.gate import accept_release, check_release, newest_accepted

SETTINGS = GateSettings()
WEEKS = ("2026-01-06", "2026-01-13", "2026-01-20", "2026-01-27")
NEW = "2026-02-03"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror of five ordinary weeks, the last not checked yet."""
    folder = tmp_path_factory.mktemp("weeks")
    for number, week in enumerate((*WEEKS, NEW)):
        write_release(folder, SyntheticSettings(release=week, papers=300 + 6 * number, seed=number, files=2))
    for week in WEEKS:
        assert check_release(folder, week, SETTINGS).accepted, week
    return folder


@pytest.fixture
def mirror(weeks: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(weeks, tmp_path / "mirror"))


def rewrite(mirror: Path, dataset: str, change: Callable[[Record], Record | None]) -> None:
    """Changes every record of a dataset of the new release; None removes it."""
    for path in (mirror / NEW / dataset).iterdir():
        changed: list[Record] = []
        for line in gzip.decompress(path.read_bytes()).splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and (kept := change(record)) is not None:
                changed.append(kept)
        path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in changed).encode()))


def refusals(verdict: Verdict) -> set[tuple[str, str]]:
    return {(finding.dataset, finding.check) for finding in verdict.findings if finding.refuses}


def test_an_ordinary_week_is_accepted_without_a_finding(mirror: Path) -> None:
    assert newest_accepted(mirror) == WEEKS[-1], "what was not checked is not used"
    verdict = check_release(mirror, NEW, SETTINGS)
    assert verdict.accepted
    assert verdict.findings == ()
    assert verdict.compared_with == WEEKS
    assert newest_accepted(mirror) == NEW
    profile = json.loads((mirror / "profiles" / f"{NEW}.json").read_text())
    papers = profile["datasets"]["papers"]
    assert (papers["rows"], papers["exact"], papers["files"]) == (324 + 7, True, 2)
    assert papers["fields"]["title"]["types"].keys() == {"string"}
    assert "externalids.DOI" in papers["fields"]


def test_a_week_ago_is_enough_to_compare_with(mirror: Path) -> None:
    for week in WEEKS[:-1]:
        (mirror / "profiles" / f"{week}.json").unlink()
    assert check_release(mirror, NEW, SETTINGS).compared_with == WEEKS[-1:]
    rewrite(mirror, "papers", lambda record: record if str(record.get("corpusid"))[-1] not in "01" else None)
    assert {check for _, check in refusals(check_release(mirror, NEW, SETTINGS))} & {"rows", "bytes"}


def halve(record: Record) -> Record | None:
    return record if str(record.get("corpusid"))[-1] in "02468" else None


BROKEN = {
    "half the papers": (lambda m: rewrite(m, "papers", halve), {("papers", "rows"), ("papers", "bytes")}),
    "a dataset absent": (lambda m: shutil.rmtree(m / NEW / "citations"), {("citations", "datasets")}),
    "full texts absent": (lambda m: shutil.rmtree(m / NEW / "s2orc_v2"), {("s2orc_v2", "datasets")}),
    "ids as strings": (
        lambda m: rewrite(m, "papers", lambda r: r | {"corpusid": str(r.get("corpusid"))}),
        {("papers", "types")},
    ),
    "titles gone": (
        lambda m: rewrite(m, "papers", lambda r: {k: v for k, v in r.items() if k != "title"}),
        {("papers", "fields")},
    ),
    "abstracts empty": (
        lambda m: rewrite(m, "abstracts", lambda r: r | {"abstract": ""}),
        {("abstracts", "fill"), ("abstracts", "bytes")},
    ),
    "papers twice": (
        lambda m: shutil.copy(m / NEW / "papers/part-000.jsonl.gz", m / NEW / "papers/part-001.jsonl.gz"),
        {("papers", "duplicates")},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_release_is_refused(mirror: Path, name: str) -> None:
    damage, expected = BROKEN[name]
    damage(mirror)
    verdict = check_release(mirror, NEW, SETTINGS)
    assert not verdict.accepted
    assert expected <= refusals(verdict)
    assert {dataset for dataset, _ in refusals(verdict)} == {dataset for dataset, _ in expected}
    assert all(finding.seen and finding.expected and finding.remedy for finding in verdict.findings)
    assert newest_accepted(mirror) == WEEKS[-1], "the schedule goes on with the last good one"


def test_a_truncated_file_is_refused(mirror: Path) -> None:
    path = mirror / NEW / "papers/part-001.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-50])
    (finding,) = check_release(mirror, NEW, SETTINGS).findings
    assert "part-001.jsonl.gz: gzip data truncated" in finding.seen
    assert newest_accepted(mirror) == WEEKS[-1]


def test_a_new_field_is_no_reason_to_refuse(mirror: Path) -> None:
    rewrite(mirror, "citations", lambda record: record | {"sentiment": "kind"})
    verdict = check_release(mirror, NEW, GateSettings(tolerance=0.5))
    assert verdict.accepted
    assert [(finding.check, finding.seen) for finding in verdict.findings] == [("fields", "new: sentiment")]


def test_a_person_accepts_what_the_gate_refuses(mirror: Path) -> None:
    rewrite(mirror, "papers", halve)
    refused = check_release(mirror, NEW, SETTINGS)
    with pytest.raises(UsageError, match="accepted with --accept"):
        accept_release(mirror, NEW, " ")
    assert accept_release(mirror, NEW, "half were withdrawn").reason == "half were withdrawn"
    assert newest_accepted(mirror) == NEW
    again = check_release(mirror, NEW, SETTINGS)
    assert (again.accepted, again.findings) == (True, refused.findings)
    shutil.rmtree(mirror / NEW / "citations")
    assert not check_release(mirror, NEW, SETTINGS).accepted, "a reason holds for what was seen then"
    with pytest.raises(UsageError, match="is not refused"):
        accept_release(mirror, WEEKS[0], "why not")


def test_a_refused_release_is_nothing_to_compare_with(mirror: Path) -> None:
    rewrite(mirror, "papers", halve)
    check_release(mirror, NEW, SETTINGS)
    write_release(mirror, SyntheticSettings(release="2026-02-10", papers=330, seed=9, files=2))
    assert check_release(mirror, "2026-02-10", SETTINGS).compared_with == WEEKS


def test_what_was_filtered_is_compared_with_the_same_choice_only(mirror: Path) -> None:
    rewrite(mirror, "citations", lambda record: record if str(record.get("citingcorpusid"))[-1] == "0" else None)
    assert ("citations", "rows") in refusals(check_release(mirror, NEW, SETTINGS))
    datasets = {"citations": FetchedDataset(files=(), kept="3 ids")}
    write_record(mirror / NEW / MANIFEST, FetchManifest(name=NEW, datasets=datasets))
    (mirror / "profiles" / f"{NEW}.json").unlink()
    assert check_release(mirror, NEW, SETTINGS).accepted


def test_a_mended_release_leaves_quarantine(mirror: Path) -> None:
    moved = shutil.move(mirror / NEW / "citations", mirror / "aside")
    assert not check_release(mirror, NEW, SETTINGS).accepted
    shutil.move(moved, mirror / NEW / "citations")
    assert check_release(mirror, NEW, SETTINGS).accepted
    assert newest_accepted(mirror) == NEW


def test_the_first_release_must_hold_what_the_pipeline_needs(tmp_path: Path) -> None:
    write_release(tmp_path, SyntheticSettings(release=NEW, papers=100, files=1, full_text="s2orc"))
    verdict = check_release(tmp_path, NEW, SETTINGS)
    assert (verdict.accepted, verdict.compared_with) == (True, ())
    rewrite(tmp_path, "abstracts", lambda r: r | {"abstract": None})
    assert refusals(check_release(tmp_path, NEW, SETTINGS)) == {("abstracts", "fields")}
    with pytest.raises(ReleaseError, match=r"is not in .*; there: 2026-02-03"):
        check_release(tmp_path, "2020-01-07", SETTINGS)


def test_rows_of_files_that_were_not_read_are_scaled_by_bytes(tmp_path: Path) -> None:
    settings = SyntheticSettings(release=NEW, papers=600, files=12, broken=False)
    written = write_release(tmp_path, settings)
    check_release(tmp_path, NEW, GateSettings(sample_files=3, sample_records=100))
    profile = json.loads((tmp_path / "profiles" / f"{NEW}.json").read_text())["datasets"]
    for name, rows in written.items():
        assert not profile[name]["exact"]
        assert profile[name]["rows"] == pytest.approx(rows, rel=0.2)
        assert profile[name]["sampled"] <= 300
