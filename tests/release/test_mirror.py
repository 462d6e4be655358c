"""Finding a release in a local mirror."""

import gzip
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schemas.errors import ReleaseError
from schemas.gate import GateSettings
from tasks.release import mirror
from tasks.release.diffs import note_other_diffs, open_diffs
from tasks.release.gate import check_release
from tasks.release.mirror import list_releases, note_others, open_release

RECORD = b'{"corpusid": 1}\n'


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """Two releases: a full one of odd file names, and an older one without citations."""
    for name in ("papers/b.gz", "papers/a b", "papers/.hidden", "abstracts/0", "citations/x.json", "s2orc_v2/y"):
        path = tmp_path / "mirror/2026-01-06" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(RECORD + name.encode()))
    for name in ("papers", "abstracts"):
        (tmp_path / "mirror/2025-12-30" / name).mkdir(parents=True)
        (tmp_path / "mirror/2025-12-30" / name / "part").write_bytes(RECORD)
    (tmp_path / "mirror/notes").mkdir()
    (tmp_path / "mirror/README").write_text("not a release")
    return tmp_path / "mirror"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "root/fingerprints.json"


def test_a_release_is_its_files_with_their_hashes(releases: Path, cache: Path) -> None:
    assert list_releases(releases) == ["2025-12-30", "2026-01-06"]
    found = open_release(releases, "2026-01-06", cache)
    assert list(found) == ["papers", "abstracts", "citations", "s2orc_v2"]
    papers = found["papers"]
    assert (papers.release, papers.dataset, papers.directory) == (
        "2026-01-06",
        "papers",
        releases / "2026-01-06/papers",
    )
    assert [file.name for file in papers.files] == ["a b", "b.gz"]
    for file in papers.files:
        data = (papers.directory / file.name).read_bytes()
        assert (file.size, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_file_is_hashed_once_until_it_changes(releases: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_release(releases, "2026-01-06", cache)
    hashed: list[str] = []
    hash_file = mirror.sha256_file
    monkeypatch.setattr(mirror, "sha256_file", lambda path: (hashed.append(path.name), hash_file(path))[1])
    assert open_release(releases, "2026-01-06", cache) == first
    assert hashed == []
    changed = releases / "2026-01-06/papers/b.gz"
    size = changed.stat().st_size
    changed.write_bytes(bytes(size))
    os.utime(changed, ns=(1, 1))
    second = open_release(releases, "2026-01-06", cache)
    assert hashed == ["b.gz"]
    assert second["papers"].digest != first["papers"].digest
    assert second["abstracts"] == first["abstracts"]


def test_a_change_that_keeps_size_and_time_is_noticed(releases: Path, cache: Path) -> None:
    first = open_release(releases, "2026-01-06", cache)
    check_release(releases, "2026-01-06", GateSettings())
    changed = releases / "2026-01-06/papers/b.gz"
    stat = changed.stat()
    changed.write_bytes(bytes(stat.st_size))
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert open_release(releases, "2026-01-06", cache)["papers"].digest != first["papers"].digest
    (finding, *_) = check_release(releases, "2026-01-06", GateSettings()).findings
    assert finding.refuses, "the gate looks at the file again"


def test_a_damaged_cache_is_said_and_made_anew(releases: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = open_release(releases, "2026-01-06", cache)
    cache.write_text('{"x": ')
    assert open_release(releases, "2026-01-06", cache) == first
    assert "cannot be read as a cache" in caplog.text
    assert len(json.loads(cache.read_text())) == 5


def test_v2_of_the_full_texts_wins_and_it_is_said(
    releases: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (releases / "2026-01-06/s2orc").mkdir()
    (releases / "2026-01-06/s2orc/old").write_bytes(RECORD)
    with caplog.at_level(logging.WARNING):
        assert set(open_release(releases, "2026-01-06", cache)) == {"papers", "abstracts", "citations", "s2orc_v2"}
    assert "s2orc_v2 is read, s2orc is not" in caplog.text


@pytest.mark.parametrize("name", ["2024-02-06", "", "..", "../mirror/2026-01-06", "notes"])
def test_an_unknown_release_lists_those_there(releases: Path, cache: Path, name: str) -> None:
    with pytest.raises(ReleaseError, match=r"is not in .*; there: 2025-12-30, 2026-01-06$"):
        open_release(releases, name, cache)


def test_no_mirror_has_no_releases(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ReleaseError, match="there: none"):
        open_release(tmp_path / "gone", "2026-01-06", cache)


def test_a_missing_dataset_is_named(releases: Path, cache: Path) -> None:
    with pytest.raises(ReleaseError, match=r"no files of citations \(found: papers, abstracts\)"):
        open_release(releases, "2025-12-30", cache)


def test_an_empty_file_is_named(releases: Path, cache: Path) -> None:
    (releases / "2026-01-06/abstracts/1").touch()
    with pytest.raises(ReleaseError, match=r"abstracts/1: is empty"):
        open_release(releases, "2026-01-06", cache)


def test_an_unreadable_file_is_named(releases: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(mirror, "sha256_file", refuse)
    with pytest.raises(ReleaseError, match=r"papers/a b: cannot be read \(Permission denied\)"):
        open_release(releases, "2026-01-06", cache)


TROUBLES: dict[str, Callable[[Path], object]] = {
    "a link to nothing": lambda folder: (folder / "c.gz").symlink_to("nowhere"),
    "a folder where a file is expected": lambda folder: (folder / "c.gz").mkdir(),
    "neither file nor folder": lambda folder: os.mkfifo(folder / "c.gz"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_cannot_be_read_among_the_files_is_an_error(releases: Path, cache: Path, trouble: str) -> None:
    TROUBLES[trouble](releases / "2026-01-06/papers")
    with pytest.raises(ReleaseError, match=rf"papers/c\.gz \({trouble}\); repair"):
        open_release(releases, "2026-01-06", cache)
    verdict = check_release(releases, "2026-01-06", GateSettings())
    assert trouble in verdict.findings[0].seen


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_cannot_be_read_in_a_diff_is_an_error(tmp_path: Path, cache: Path, trouble: str) -> None:
    updates = tmp_path / "diffs/2026-01-06_2026-01-13/papers/updates"
    updates.mkdir(parents=True)
    open_diffs(tmp_path, "2026-01-06", "2026-01-13", ["papers"], cache)
    TROUBLES[trouble](updates)
    with pytest.raises(ReleaseError, match=rf"updates/c\.gz \({trouble}\); repair"):
        open_diffs(tmp_path, "2026-01-06", "2026-01-13", ["papers"], cache)
    (updates / "c.gz").rename(updates.parent / "c.gz")
    with pytest.raises(ReleaseError, match=rf"papers/c\.gz \({trouble}\); repair"):
        open_diffs(tmp_path, "2026-01-06", "2026-01-13", ["papers"], cache)


def test_a_file_beside_updates_and_deletes_is_an_error(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "diffs/2026-01-06_2026-01-13/papers/updates").mkdir(parents=True)
    (tmp_path / "diffs/2026-01-06_2026-01-13/papers/part.gz").write_bytes(RECORD)
    with pytest.raises(ReleaseError, match=r"papers/part\.gz \(a file beside updates and deletes\)"):
        open_diffs(tmp_path, "2026-01-06", "2026-01-13", ["papers"], cache)


def test_a_folder_that_cannot_be_read_is_an_error(releases: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(folder: Path) -> None:
        iterdir = Path.iterdir

        def refuse(self: Path) -> Iterator[Path]:
            if self == folder:
                raise PermissionError(13, "Permission denied", str(self))
            return iterdir(self)

        monkeypatch.setattr(Path, "iterdir", refuse)

    forbid(releases / "2026-01-06/papers")
    with pytest.raises(ReleaseError, match=r"2026-01-06/papers: cannot be read \(Permission denied\)"):
        open_release(releases, "2026-01-06", cache)
    monkeypatch.undo()
    forbid(releases / "2026-01-06")
    assert list_releases(releases) == ["2025-12-30", "2026-01-06"], "a release is not passed over in silence"
    with pytest.raises(ReleaseError, match=r"2026-01-06.*cannot be read \(Permission denied\)"):
        open_release(releases, "2026-01-06", cache)
    monkeypatch.undo()
    (releases / "lost+found").mkdir()
    forbid(releases / "lost+found")
    assert list_releases(releases) == ["2025-12-30", "2026-01-06"]
    assert f"{releases}/lost+found (its name is no date)" in note_others(releases)


def test_well_known_names_are_no_data(releases: Path, cache: Path) -> None:
    before = open_release(releases, "2026-01-06", cache)
    for name in ("README", "LICENSE.txt", "SHA256SUMS", "manifest.json", "_SUCCESS"):
        (releases / "2026-01-06/papers" / name).write_text("x")
    assert open_release(releases, "2026-01-06", cache) == before


def test_a_dataset_that_is_there_twice_is_an_error(releases: Path, cache: Path) -> None:
    (releases / "2026-01-06/papers.jsonl").write_bytes(RECORD)
    with pytest.raises(ReleaseError, match="papers is there more than once"):
        open_release(releases, "2026-01-06", cache)


def test_only_dates_are_releases_and_the_rest_is_noted(
    releases: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("old-backup", "2026-13-45", "2026-01-06x", "٢٠٢٦-٠١-٠٦", "20260113"):
        shutil.copytree(releases / "2026-01-06", releases / name)
    (releases / "2026-02-03").mkdir()
    (releases / "diffs/old").mkdir(parents=True)
    (releases / "2026-01-06/papers-old").mkdir()
    assert list_releases(releases) == ["2025-12-30", "2026-01-06"]
    noted = {note.removeprefix(f"{releases}/").split(" ")[0] for note in note_others(releases)}
    assert noted == {
        "README", "notes", "old-backup", "2026-13-45", "2026-01-06x", "٢٠٢٦-٠١-٠٦", "20260113", "2026-02-03",
    }  # fmt: skip
    assert note_other_diffs(releases) == [f"{releases}/diffs/old (not a folder named <date>_<date>)"]
    open_release(releases, "2026-01-06", cache)
    assert "papers-old" in caplog.text
    with pytest.raises(ReleaseError, match="is not in"):
        check_release(releases, "old-backup", GateSettings())


def test_official_samples_are_a_release_of_single_files(shared: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "2022-05-10").symlink_to(shared / "data/s2ag_official_samples")
    found = open_release(tmp_path, "2022-05-10", cache)
    assert {name: [file.name for file in dataset.files] for name, dataset in found.items()} == {
        "papers": ["papers.gz"],
        "abstracts": ["abstracts.gz"],
        "citations": ["citations.gz"],
        "s2orc": ["s2orc.gz"],
    }
