"""The generated reference: nothing that people can type, set, read or add is missing."""

import re
import sys
from pathlib import Path

import pytest

from schemas.table import all_tables
from tasks.ranking.baseline import all_baselines

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    sys.path.append(str(ROOT / "docs"))
    from reference_pages import write_pages  # pyright: ignore[reportMissingImports]

    folder = tmp_path_factory.mktemp("reference")
    write_pages(folder)
    return {path.stem: path.read_text() for path in folder.glob("*.md")}


def test_every_command_has_a_section_with_its_options(pages: dict[str, str]) -> None:
    commands = re.findall(r'^_add\(\w+, "', (ROOT / "flows" / "cli.py").read_text(), re.MULTILINE)
    usages = re.findall(r"```console\narena ", pages["cli"])
    assert len(usages) >= len(commands) > 40
    build = pages["cli"].partition("## arena build\n")[2].partition("\n## ")[0]
    assert "`--from-edition STR`" in build
    assert "`--buckets INT`" in build


def test_every_table_has_a_row_for_each_column(pages: dict[str, str]) -> None:
    for table in all_tables().values():
        section = pages["tables"].partition(f"## {table.name}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == table.arrow.names


def test_settings_say_type_bounds_default_and_meaning(pages: dict[str, str]) -> None:
    meaning = "Longer texts are cut after this number of tokens (or at the model's own limit)."
    assert f"| `max_tokens` | `int, >= 8, <= 8192` | `512` | {meaning} |" in pages["settings"]
    assert str(Path.home()) not in pages["settings"]


def test_every_plugin_is_listed(pages: dict[str, str]) -> None:
    for name, baseline in all_baselines().items():
        assert f"| `{name}` | {baseline.description} |" in pages["plugins"]


def test_every_environment_variable_of_the_code_is_explained() -> None:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    sources = (path.read_text() for folder in ("flows", "tasks") for path in (ROOT / folder).rglob("*.py"))
    named = {name for source in sources for name in re.findall(r"\bARENA_[A-Z0-9_]*[A-Z0-9]\b", source)}
    assert {name for name in named if f"`{name}`" not in page} <= {"ARENA_LLM"}


def test_the_picture_of_the_rooms_names_every_room() -> None:
    picture = (ROOT / "docs" / "pictures" / "rooms.svg").read_text()
    rooms = [path.parent.name for folder in ("flows", "tasks") for path in (ROOT / folder).glob("*/__init__.py")]
    assert [room for room in rooms if f">{room}</text>" not in picture] == []
