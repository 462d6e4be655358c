"""Finding a release in a local mirror."""

import gzip
import hashlib
import json
import logging
import os
from pathlib import Path

import pytest

from schemas.errors import ReleaseError
from tasks.release import mirror
from tasks.release.mirror import list_releases, open_release

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


def test_official_samples_are_a_release_of_single_files(shared: Path, cache: Path) -> None:
    found = open_release(shared / "data", "s2ag_official_samples", cache)
    assert {name: [file.name for file in dataset.files] for name, dataset in found.items()} == {
        "papers": ["papers.gz"],
        "abstracts": ["abstracts.gz"],
        "citations": ["citations.gz"],
        "s2orc": ["s2orc.gz"],
    }
