"""The notebook runs from top to bottom on a small edition, and shows nothing of the machine."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.append(str(ROOT / "docs"))
    from small_edition import make_small_edition  # pyright: ignore[reportMissingImports]

    monkeypatch.setenv("ARENA_ROOT", str(make_small_edition(tmp_path)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    path = ROOT / "docs" / "notebooks" / "edition.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit"
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = str([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    assert "feedback.bm25.abstract" in outputs
    assert "recall_100" in outputs
    assert str(tmp_path) not in outputs
