"""The programs of the tutorial can be typed as they are: over each door a system enters."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.service.conftest import Served

TUTORIAL = REPOSITORY / "docs" / "tutorial" / "enter-over-http.md"


@pytest.mark.parametrize("door", ["REST", "MCP"])
def test_the_programs_of_the_tutorial_enter_a_system(door: str, served: Served, tmp_path: Path) -> None:
    section = TUTORIAL.read_text().partition(f"## Over {door}")[2]
    program = tmp_path / "program.py"
    program.write_text(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0])
    done = subprocess.run([sys.executable, program, served.url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'violations': {'unavailable': 0, 'duplicate': 0}, 'outside': 0}" in done.stdout
    assert done.stdout.splitlines()[-1] in ("finished {'scored': 3}", "{'scored': 2}")
