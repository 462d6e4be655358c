"""The plug-ins that the how-to guides show can be typed as they are, and are registered."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = {
    "own-baseline": "baseline two_queries",
    "own-metric": "measure success_5",
    "own-builder": "builder first_letters",
}


@pytest.mark.parametrize("guide", GUIDES)
def test_the_plugin_of_a_guide_is_registered(guide: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{guide}.md").read_text()
    (tmp_path / "example.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    code = "import example, arena; print(*(f'{plugin.kind} {plugin.name}' for plugin in arena.plugins()), sep='\\n')"
    paths = os.pathsep.join([str(ROOT), str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert GUIDES[guide] in done.stdout.splitlines()
