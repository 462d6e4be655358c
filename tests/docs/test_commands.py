"""What the README and the pages of docs/ tell people to type: every command and option exists."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest
from cyclopts import MissingArgumentError

from flows.cli import app

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long
RUNBOOKS = ROOT / "docs" / "runbooks"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EVERYWHERE = ("--debug", "--verbose", "--version")
PLACEHOLDERS = {"RELEASE": "2026-01-06", "NEW": "2026-01-13"}
PARTS = ("**You see.**", "**What happened.**", "**Do.**", "**All is well when**")


def commands(page: Path) -> list[str]:
    """Returns the lines of code blocks that begin with `arena`."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL))
    return [line.split(" #")[0].strip() for line in blocks.splitlines() if line.startswith("arena ")]


def mentions(page: Path) -> list[str]:
    """Returns the code in the text that begins with `arena`; it may leave required arguments out."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [code for code in re.findall(r"(?<!`)`(arena [^`\n]+)`(?!`)", text) if "..." not in code]


def parse(line: str) -> None:
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(line)[1:] if word not in EVERYWHERE]
    app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_arena_command_can_be_typed(page: Path) -> None:
    for line in commands(page):
        parse(line)
    for mention in mentions(page):
        with contextlib.suppress(MissingArgumentError):
            parse(mention)


def test_the_commands_are_found_at_all() -> None:
    found = {tuple(shlex.split(line)[1:3]) for page in PAGES for line in commands(page)}
    assert {("edition", "verify"), ("llm", "why-miss"), ("airqa", "run"), ("rerun", "topics")} <= found


def test_every_runbook_has_its_parts_and_is_in_the_list() -> None:
    books = {page.name: page for page in RUNBOOKS.glob("*.md") if page.stem != "index"}
    listed = re.findall(r"\]\((\S+\.md)\)", (RUNBOOKS / "index.md").read_text())
    assert sorted(listed) == sorted(books)
    for name, page in books.items():
        text = page.read_text()
        places = [text.find(part) for part in PARTS]
        assert -1 not in places, name
        assert places == sorted(places), name
