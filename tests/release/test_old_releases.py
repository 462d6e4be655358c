"""Which releases and diffs of a mirror are old."""

from pathlib import Path

import pytest

from tasks.release.old_releases import delete_old, find_old

WHOLE = ("2025-12-30", "2026-01-06", "2026-01-13", "2026-01-20")
DIFFS = ("2025-12-30_2026-01-06", "2026-01-06_2026-01-13", "2026-01-13_2026-01-20")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    for name in (*(f"{name}/papers" for name in WHOLE), *(f"diffs/{name}/papers/updates" for name in DIFFS)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "part").write_bytes(b"123")
    (tmp_path / "diffs/notes").mkdir()
    return tmp_path


def names(mirror: Path, *rule: object) -> list[str]:
    return [str(old.path.relative_to(mirror)) for old in find_old(mirror, *rule)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keep", "built", "needed", "old"),
    [
        (2, "", (), []),  # nothing is published: anything may be needed
        (2, "2026-01-20", (), ["2025-12-30", "2026-01-06", *(f"diffs/{name}" for name in DIFFS[:2])]),
        (3, "2026-01-20", (), ["2025-12-30", *(f"diffs/{name}" for name in DIFFS[:2])]),
        (9, "2026-01-13", (), ["diffs/2025-12-30_2026-01-06"]),
        (1, "2026-01-06", (), ["2025-12-30"]),  # what is not built yet stays, however many are kept
        (1, "2026-01-20", ("2026-01-06",), ["2025-12-30", "2026-01-13", "diffs/2026-01-06_2026-01-13"]),
    ],
)
def test_old_is_what_is_built_not_among_the_newest_and_of_no_draft(mirror, keep, built, needed, old):
    assert names(mirror, keep, built, needed) == old


def test_what_is_old_is_deleted_and_nothing_else(mirror):
    old = find_old(mirror, 2, "2026-01-20", ())
    assert {found.size for found in old} == {3} and all(found.why for found in old)
    delete_old(old)
    assert names(mirror, 2, "2026-01-20", ()) == []
    assert sorted(path.name for path in mirror.iterdir()) == ["2026-01-13", "2026-01-20", "diffs"]
    assert sorted(path.name for path in (mirror / "diffs").iterdir()) == ["2026-01-13_2026-01-20", "notes"]
