"""Contract of the public interface: a package that imports `arena` alone adds one of everything, by one file each."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tasks.demo.release import SyntheticSettings, write_release
from tasks.exports.edition import Edition, open_edition
from tests.contract.plugged import FILES, install
from tests.llm.scripted_server import ScriptedServer, completion

EDITION = "2026-01-06"
REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.long

RUN_COMMANDS = """
import contextlib, io, json, sys
from flows import cli
for tokens in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.app.meta(tokens, exit_on_error=False, print_error=False) or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
"""Runs commands one after the other in one process, because most of a command's time goes to imports."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Plugged(NamedTuple):
    """A folder with a store, and what commands said in a process that sees the package of plug-ins."""

    folder: Path
    ended: dict[str, Ended]
    environment: dict[str, str]

    @property
    def edition(self) -> Edition:
        return open_edition(self.folder / "store", EDITION)


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugged]:
    folder = tmp_path_factory.mktemp("plugged")
    write_release(folder / "releases", SyntheticSettings(papers=300))
    (folder / "q.json").write_text(json.dumps({"q1": {"search_query": "learning of graphs"}}))
    (folder / "maps.jsonl").write_text('{"corpusid": 1, "tree": {"label": "A", "children": []}}\n')
    (folder / "llm.json").write_text(json.dumps({"prices": {"m": {"input": 1, "output": 1}}}))
    server = ScriptedServer(lambda seen, _: completion('{"up": true}'))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ARENA_", "OPENAI_"))}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(install(folder / "installed"))]),
        "ARENA_ROOT": str(folder / "store"),
        "ARENA_RELEASES": str(folder / "releases"),
        "ARENA_LLM_BASE_URL": server.url,
        "ARENA_LLM_MODEL": "m",
        "ARENA_LLM_PROVIDER": "scripted",
        "ARENA_LLM_API_KEY": "k",
        "ARENA_LLM_SETTINGS": str(folder / "llm.json"),
    }
    commands: dict[str, list[object]] = {
        "build": ["build", "--survey-selector", "everything", "--buckets", 1, "--workers", 1, "--json"],
        "index": ["index", "--engine", "bm25", "--workers", 1, "--json"],
        "run": ["run", "discovery", "--baselines", "first_words", "--retrievers", "bm25", "--workers", 1],
        "organize": [
            *("run", "organization", "--maps", folder / "maps.jsonl", "--builders", "flat"),
            *("--until", "organize", "--workers", 1, "--json"),
        ],
        "judge": [
            *("judge", folder / "q.json", "--engines", "echo", "--judges", "thumbs", "--depth", 3),
            *("--resamples", 100, "--workers", 1, "--json", "--edition", EDITION),
        ],
        "report": ["report", "--to", folder / "report", "--workers", 1],
        "export": ["export", "--format", "titles", "--to", folder / "out", "--json"],
        "stage": ["rerun", "title_lengths", "--workers", 1, "--json"],
        "status": ["status", "--json"],
        "plugins": ["plugins", "--json"],
        "no baseline": ["run", "discovery", "--baselines", "nope", "--retrievers", "bm25"],
        "no builder": ["run", "organization", "--builders", "nope"],
        "no engine": ["judge", folder / "q.json", "--engines", "nope", "--edition", EDITION],
        "no judge": ["judge", folder / "q.json", "--engines", "echo", "--judges", "nope", "--edition", EDITION],
        "no selector": ["corpus", "score-selector", folder / "q.json", "--name", "nope"],
        "no format": ["export", "--format", "nope", "--to", folder],
        "no stage": ["index", "--until", "nope"],
        "help": ["export", "--help"],
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN_COMMANDS],
        input=json.dumps([[str(token) for token in tokens] for tokens in commands.values()]),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        cwd=folder,
    )
    server.close()
    assert done.returncode == 0, done.stderr
    lines = [Ended(*json.loads(line)) for line in done.stdout.splitlines()]
    yield Plugged(folder, dict(zip(commands, lines, strict=True)), environment)


def test_each_plug_in_is_one_file_that_imports_the_public_interface_alone() -> None:
    for group, text in FILES.items():
        imported = {line.split()[1] for line in text.splitlines() if line.startswith(("from ", "import "))}
        assert imported <= {"arena", "pathlib"}, group


def test_everything_is_listed_with_its_sentence(plugged: Plugged) -> None:
    listed = {(row["kind"], row["name"]): row["description"] for row in plugged.ended["plugins"].json()}
    assert {
        ("measure", "success_5"): "Whether one of the first `k` documents is relevant: 1 or 0.",
        ("baseline", "first_words"): "Searches for the first three words of the title.",
        ("builder", "flat"): "Puts every reference right below the title.",
        ("search engine", "echo"): "Returns the query as titles.",
        ("judge", "thumbs"): "Up or down.",
        ("AirQA system", "yes"): "Answers yes.",
        ("survey selector", "everything"): "Accepts every candidate.",
        ("exporter", "titles"): "The topics' titles, one a line.",
        ("stage", "title_lengths"): "Writes the number of letters of every title.",
    }.items() <= listed.items()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("no baseline", "first_words"),
        ("no builder", "flat"),
        ("no engine", "echo"),
        ("no judge", "thumbs"),
        ("no selector", "everything"),
        ("no format", "titles"),
        ("no stage", "title_lengths"),
    ],
)
def test_a_wrong_name_is_answered_with_the_choices(plugged: Plugged, command: str, name: str) -> None:
    ended = plugged.ended[command]
    assert ended.code == 2
    assert "nope" in ended.err
    assert name in ended.err.splitlines()[-1]


def test_a_selector_decides_what_is_a_survey(plugged: Plugged) -> None:
    plugged.ended["build"].json()
    surveys = plugged.edition.table("surveys").collect()
    assert set(surveys["selector"]) == {"everything"}
    assert surveys["accepted"].all()


def test_a_baseline_and_a_measure_are_in_scores_output_and_report(plugged: Plugged) -> None:
    ended, tag = plugged.ended["run"], "first_words.bm25.abstract"
    assert ended.code == 0, ended.err
    assert tag in ended.out
    scores = plugged.edition.sql(f"SELECT DISTINCT measure FROM scores WHERE tag = '{tag}'").fetchall()
    assert ("success_5",) in scores
    assert plugged.ended["report"].code == 0, plugged.ended["report"].err
    page = (plugged.folder / "report" / "report.html").read_text()
    assert tag in page
    assert "Success@5" in page
    assert "Success@5" in ended.out.replace("\n", "")


def test_a_builder_makes_trees(plugged: Plugged) -> None:
    plugged.ended["organize"].json()
    assert "trees/flat.oracle" in plugged.edition.datasets


def test_an_engine_and_a_judge_are_scored_and_shown(plugged: Plugged) -> None:
    found = plugged.ended["judge"].json()
    (tag,) = found["scores"]
    assert tag.startswith("thumbs+m")
    (row,) = found["scores"][tag]
    assert (row["engine"], row["mean_1"]) == ("echo@3", 100)
    page = Path(found["report"]).read_text()
    assert "echo@3" in page
    assert tag in page


def test_an_exporter_writes_files_and_stands_in_the_help(plugged: Plugged) -> None:
    (path,) = plugged.ended["export"].json()["files"]
    assert Path(path).read_text().splitlines() == plugged.edition.topics()["title"].to_list() != []
    assert "titles: The topics' titles" in " ".join(plugged.ended["help"].out.replace("│", "").split())


def test_a_stage_is_added_to_an_edition_and_followed_by_status(plugged: Plugged) -> None:
    assert "title_lengths" in plugged.ended["stage"].json()["datasets"]
    (status,) = plugged.ended["status"].json()
    slots = {slot["slot"]: slot for slot in status["slots"]}
    assert (slots["title_lengths"]["state"], slots["title_lengths"]["runs"]) == ("built", "no")
    lengths = plugged.edition.dataset("title_lengths").path("lengths.txt").read_text().split()
    assert len(lengths) == plugged.edition.table("topics").collect().height


def test_the_reference_lists_them(plugged: Plugged) -> None:
    code = "import reference_pages; print(reference_pages.plugins_page())"
    paths = os.pathsep.join([plugged.environment["PYTHONPATH"], str(REPOSITORY / "docs")])
    environment = plugged.environment | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("success_5", "first_words", "flat", "echo", "thumbs", "yes", "everything", "titles", "title_lengths"):
        assert f"| `{name}` |" in done.stdout


def test_the_command_line_itself_sees_an_installed_package(plugged: Plugged) -> None:
    """One command through the program as people start it; the others above share a process."""
    command = [sys.executable, "-m", "flows.cli", "export", "--format", "titles", "--to", plugged.folder / "again"]
    done = subprocess.run(command, env=plugged.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (plugged.folder / "again" / "titles.txt").is_file()
