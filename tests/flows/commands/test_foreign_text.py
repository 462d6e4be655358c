"""Text from papers and files is printed as it is: never read as markup, and without control of the terminal."""

import json
import logging
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from flows.commands.display import Display
from flows.commands.terminal import show_logs
from flows.jobs.artifact_texts import markdown_table
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline, StageLabel
from schemas.settings import CorpusSettings, Resources
from tasks.store.editions import Editions
from tasks.store.store import Request, Store
from tests.flows.conftest import HOSTILE, Arena, Chain, direct

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")

ROOT = Path(__file__).parents[3]


@pytest.fixture
def hostile_arena(hostile: Path, arena: Arena, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Runs commands on the edition with hostile titles, and a second edition without its topics."""
    monkeypatch.setenv("ARENA_ROOT", str(hostile / "store"))
    monkeypatch.setenv("ARENA_RELEASES", str(hostile / "releases"))
    return arena


def _files(folder: Path, hostile: Path) -> dict[str, Path]:
    """Writes files with hostile text for the commands that read files."""
    store = Store(hostile / "store")
    slots = Editions(store).load("2026-01-06").slots
    survey = store.open(slots["topics"]).table()["topic_id"][0].as_py()
    question = {"uuid": HOSTILE, "question": HOSTILE, "tags": [HOSTILE], "evaluator": {"eval_func": HOSTILE}}
    content = {
        "labels": {"corpusid": survey, "label": "no"},
        "questions": question,
        "queries": {"q": {"search_query": HOSTILE, "settings": {HOSTILE: HOSTILE}}},
        "qrels": {HOSTILE: {HOSTILE: 1}},
        "tree": {"id": HOSTILE, "tree": {"label": HOSTILE, "children": [{"label": "b"}]}},
    }
    paths = {name: folder / f"{name} [active vision].json" for name in content}
    for name, value in content.items():
        paths[name].write_text(json.dumps(value))
    return paths


VERBS = {
    "search": ("search", "[/b] learning", "--retriever", "bm25", "--edition", "2026-01-06"),
    "selector": ("corpus", "score-selector", "labels", "--edition", "2026-01-06"),
    "airqa": ("airqa", "check", "questions"),
    "queries": ("judge", "queries", "--list"),
    "ranking": ("score", "ranking", "qrels", "qrels"),
    "diff": ("edition", "diff", "2026-01-06", "less"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_prints_foreign_text_as_it_is(hostile_arena: Arena, hostile: Path, verb: str) -> None:
    files = _files(hostile_arena.folder, hostile)
    if verb == "diff":
        _edition_of_other_topics(hostile)
    tokens = [files.get(token, token) for token in VERBS[verb]]

    code, out, err = hostile_arena(*tokens)
    whole = hostile_arena(*tokens, "--json")[1]

    assert "Traceback" not in err
    assert code == (1 if verb == "airqa" else 0), err
    assert not CONTROL.search(out + err + whole)
    json.loads(whole)
    assert "[active" in out
    assert "[active vision]" in whole


def _edition_of_other_topics(hostile: Path) -> None:
    """Adds an edition whose topics are fewer, so that a comparison names the others."""
    store = Store(hostile / "store")
    files = open_files(Machine(root=store.root, releases=hostile / "releases", workers=1), None)
    Pipeline(store, "less", direct(store)).build_corpus(CorpusSettings(buckets=1, year_only_survey="drop"), files)


def test_an_error_and_the_name_of_a_file_are_text(hostile_arena: Arena) -> None:
    code, _, err = hostile_arena("score", "ranking", hostile_arena.folder / "[/b] [bold]x[/bold]", "x")
    assert code == 1
    assert "[/b] [bold]x[/bold]: cannot be read" in err


def test_progress_and_logs_are_text(chain: Chain, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    show_logs()
    try:
        logging.getLogger("tests").info("GET https://me:pw@host/x?Signature=abc [/b] %s", HOSTILE)
    finally:
        root.level, root.handlers = before
    told = capsys.readouterr().err
    assert not CONTROL.search(told)
    assert "Signature" not in told
    assert "pw" not in told
    assert "[/b]" in told
    with Display() as display:
        step, label = chain.steps(1)[0], StageLabel("run/[/b][x]", False)
        display.executor(store, Resources(workers=1))(Request(step.stage, step.settings, {}), label)
    assert "run/[/b][x]" in capsys.readouterr().err


def test_only_the_terminal_prints() -> None:
    """Other modules print through it; a table or a console of their own would read markup."""
    allowed = {"flows/commands/terminal.py", "flows/commands/display.py", "flows/commands/transfer.py"}
    users = {
        str(path.relative_to(ROOT))
        for room in ("flows", "tasks", "schemas")
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"^\s*(from|import) rich|^\s*print\(", path.read_text(), re.MULTILINE)
    }
    assert users - {"tasks/paperqa/sql_child.py"} == allowed


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "title",
    [
        HOSTILE,
        "a|b\n# c",
        "**x** _y_ ~~z~~ `c` $m$",
        "![p](http://e.vil/p.png)",
        "&lt;script&gt;",
        "\\<b>\\|",
        "www.evil.com <me@e.vil>",
    ],
)
def test_an_artifact_shows_titles_as_they_are(title: str) -> None:
    page = _Tags()
    page.feed(
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .render(markdown_table([{"topic": 1, "title": title}]))
    )
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert re.sub(r"\s", "", CONTROL.sub("", title)) in re.sub(r"\s", "", page.text)
    assert not re.search(r"https?://|www\.", markdown_table([{"title": title}])), (
        "renderers make links of bare addresses"
    )
