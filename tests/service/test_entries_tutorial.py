"""The tutorial "Enter your system in ten minutes": its scripts run as they stand, and their runs enter the edition."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from flows import cli
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.service.conftest import EDITION, Served, Start
from tests.service.doors import rows

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "enter-your-system.md"


def scripts() -> dict[str, str]:
    """Returns the page's Python files by name."""
    return dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


def commands(section: str) -> list[list[str]]:
    """Returns the commands of a section."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    return [line.replace("2026-01-06", EDITION).split() for line in blocks.splitlines() if line]


@pytest.fixture
def served(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A served desk, in a folder with the page's scripts."""
    opened = start()
    folder = tmp_path / "here"
    folder.mkdir()
    for name, text in scripts().items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ARENA_ROOT", str(opened.root))
    monkeypatch.setenv("ARENA_DESK_URL", opened.url)
    monkeypatch.setenv("EDITION", EDITION)
    yield opened


def type_in(section: str, *left_out: str) -> None:
    for words in commands(section):
        if " ".join(words[:2]) in left_out:
            continue
        if words[0] == "python":
            runpy.run_path(words[1])
        else:
            workers = ["--workers", "1"] if words[1] == "submit" else []
            code = cli.app.meta([*words[1:], *workers], exit_on_error=False)
            assert not code, words


def test_the_page_has_its_scripts() -> None:
    assert set(scripts()) == {"rank.py", "inspect_agent.py"}


def test_the_door_of_files(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    type_in("A file", "arena report")
    found = rows(served.root, "overlap@1")
    assert len({topic for topic, _, _ in found}) == 3
    store = Store(served.root)
    run = store.open(Editions(store).load(EDITION).slots["run/overlap@1"])
    assert run.manifest.counts.notes["unavailable"] == 0, "the script keeps to the horizon"
    assert "outcomes scored 3" in capsys.readouterr().out


@pytest.mark.e2e
def test_the_door_of_inspect_ai(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def act(messages: list[object], *_: object) -> ModelOutput:
        last = messages[-1]
        kind = getattr(last, "function", None)
        if kind is None:
            output = ModelOutput.for_tool_call("mockllm/model", "search", {"query": "birds", "k": 5})
        elif kind == "search":
            hits = json.loads(getattr(last, "text", ""))["hits"]
            found = {"ranking": [hit["corpus_id"] for hit in hits]}
            output = ModelOutput.for_tool_call("mockllm/model", "submit", found)
        else:
            output = ModelOutput.for_tool_call("mockllm/model", "end", {"answer": "handed in"})
        output.usage = ModelUsage()
        return output

    import inspect_ai

    model = get_model("mockllm/model", custom_outputs=act)
    typed = inspect_ai.eval
    monkeypatch.setattr(inspect_ai, "eval", lambda *tasks, **options: typed(*tasks, **{**options, "model": model}))
    type_in("inspect_ai")
    said = capsys.readouterr().out
    assert "success" in said
    assert "recall_100" in said
    assert pl.DataFrame(rows(served.root, "react@1"), orient="row").height > 0
