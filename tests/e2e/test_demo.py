"""`arena demo` in a process of its own: how it ends, and what it prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_the_demo_ends_with_a_report_and_prints_no_warning(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ARENA_", "PREFECT_"))}
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "demo", "--papers", "150"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[-1].removeprefix("report: ")).is_file()
    told = [line for line in done.stderr.splitlines() if not line.startswith("demo: ") and "| INFO " not in line]
    assert told == []
