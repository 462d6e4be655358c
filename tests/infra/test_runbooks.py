"""What the README and the pages of infra/ tell people to type: every command and option is one that exists."""

import re
import shlex
from pathlib import Path

import pytest

from flows.cli import app

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
PAGES = sorted([ROOT / "README.md", INFRA / "README.md", *(INFRA / "runbooks").glob("*.md")])
EVERYWHERE = ("--debug", "--verbose", "--version")
PARTS = ("**You see.**", "**What happened.**", "**Do.**", "**Well again.**")


def commands(page: Path) -> list[str]:
    """Lines of code blocks, and code in the text, that begin with `arena`."""
    text = page.read_text()
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    inline = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line.split(" #")[0].strip() for line in [*blocks.splitlines(), *inline]]
    return [line for line in lines if line.startswith("arena ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_arena_command_can_be_typed(page: Path) -> None:
    for line in commands(page):
        words = [word for word in shlex.split(line)[1:] if word not in EVERYWHERE]
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_the_commands_are_found_at_all() -> None:
    found = {tuple(shlex.split(line)[1:3]) for page in PAGES for line in commands(page)}
    assert {("edition", "verify"), ("llm", "why-miss"), ("airqa", "run"), ("rerun", "topics")} <= found


def test_every_runbook_has_its_parts_and_is_in_the_list() -> None:
    index = (INFRA / "runbooks" / "README.md").read_text()
    listed = set(re.findall(r"\]\((\S+\.md)\)", index))
    books = [page for page in PAGES if page.stem != "README"]
    assert listed == {page.name for page in books}
    for page in books:
        text = page.read_text()
        places = [text.find(part) for part in PARTS]
        assert -1 not in places, page.name
        assert places == sorted(places), page.name
        assert all((page.parent / name).is_file() for name in re.findall(r"\]\((\S+\.md)\)", text)), page.name
