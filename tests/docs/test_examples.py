"""The plug-ins that the how-to guides show can be typed as they are, and are registered."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long
GUIDES = {
    "own-baseline": "baseline two_queries",
    "own-metric": "measure success_5",
    "own-builder": "builder first_letters",
}


def test_the_plugins_of_the_guides_are_registered(tmp_path: Path) -> None:
    names = [f"example_{number}" for number in range(len(GUIDES))]
    for guide, name in zip(GUIDES, names, strict=True):
        text = (ROOT / "docs" / "how-to" / f"{guide}.md").read_text()
        (tmp_path / f"{name}.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    code = (
        f"import {', '.join(names)}, arena; print(*(f'{{plugin.kind}} {{plugin.name}}' for plugin in arena.plugins()), "
        "sep='\\n')"
    )
    paths = os.pathsep.join([str(ROOT), str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert set(GUIDES.values()) <= set(done.stdout.splitlines())
