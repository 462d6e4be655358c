"""Keys come from the environment and go nowhere."""

import sqlite3
from pathlib import Path

import pytest

from tests.e2e.conftest import CANARY, CORPUS, RELEASE, Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_no_key_is_in_a_parameter_log_artifact_or_result(site: Site, out: Path, tmp_path: Path):
    assert CANARY in site.environment["S2_API_KEY"]
    root = tmp_path / "store"
    settings = {"release": RELEASE, "settings": CORPUS, "control": {"until": "papers"}, "machine": {"root": str(root)}}
    site.completed(site.start("build-corpus", settings))

    database = site.folder / "prefect" / "prefect.db"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        assert connection.execute("select count(*) from log").fetchone()[0] > 0
    places = [site.folder, out, tmp_path]
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    assert database in files and any(path.name == "worker.log" for path in files)
    assert not [str(path) for path in files if CANARY.encode() in path.read_bytes()]
