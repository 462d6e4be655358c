"""Names and numbers are checked where they enter: before anything is written, on one line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from pydantic import TypeAdapter, ValidationError

from flows import cli
from flows.commands.options import NUMBER
from flows.jobs.build_corpus import build_corpus
from flows.jobs.build_index import build_index
from flows.jobs.organization import organization
from flows.jobs.paperqa import paperqa
from flows.jobs.ranking import discovery, selection
from flows.jobs.rerun import rerun_stage
from flows.jobs.resync import resync
from flows.jobs.search import paper_search
from flows.pipeline.walk import Pipeline
from schemas.errors import UsageError
from schemas.identifiers import EDITION_PATTERN, RELEASE_PATTERN, EditionName, ReleaseName, RunName
from tasks.store.store import Store
from tests.flows.conftest import Arena, direct

NO_NAMES = (
    "a/b",
    "../../evil",
    "x" * 300,
    "\u0663",
    "2026-01-06\u0663",
    "my edition",
    "",
    "a\n",
    ".",
    "..",
    "-x",
    "a\x00b",
    "\u00e9",
)

VERBS = (
    ("build", "--edition"),
    ("build", "--release"),
    ("build", "--from-edition"),
    ("index", "--edition"),
    ("run", "discovery", "--edition"),
    ("run", "organization", "--runs"),
    ("report", "--edition"),
    ("search", "x", "--edition"),
    ("airqa", "run", "--questions", "q", "--metadata", "m", "--edition"),
    ("judge", "queries.json", "--edition"),
    ("edition", "show"),
    ("edition", "diff", "2026-01-06"),
    ("release", "check"),
    ("status", "--edition"),
    ("rerun", "papers", "--edition"),
    ("llm", "seal", "--edition"),
    ("export", "--to", "out", "--edition"),
    ("audit", "surveys", "--edition"),
)


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if ".locks" not in path.parts}


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_no_name_is_refused_before_anything_is_written(arena: Arena, verb: tuple[str, ...]) -> None:
    before = _files(arena.folder)
    for name in NO_NAMES:
        option = verb[-1].startswith("--")
        tokens = (
            (*verb[:-1], f"{verb[-1]}={name}") if option else (*verb, *([name] if name[:1] != "-" else ["--", name]))
        )
        code, out, err = arena(*tokens)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)
        assert verb[-1] in err or "expected" in err, (name, err)
        assert "see --help" in err, (name, err)
    assert _files(arena.folder) == before


def test_a_pipeline_refuses_a_name_whoever_made_it(store: Store) -> None:
    with pytest.raises(UsageError, match="edition name 'my edition': expected 1 to 64"):
        Pipeline(store, "my edition", direct(store))
    assert not (store.root / "recipes").exists()


@pytest.mark.parametrize("kind", [EditionName, ReleaseName, RunName])
def test_forms_get_the_pattern_and_check_it_alike(kind: Any) -> None:
    form = TypeAdapter(kind)
    assert form.json_schema()["pattern"]
    for name in NO_NAMES:
        with pytest.raises(ValidationError, match="expected"):
            form.validate_python(name)
    assert form.validate_python("2026-01-06") == "2026-01-06"


def test_the_form_of_every_flow_has_the_pattern() -> None:
    flows = [build_corpus, build_index, discovery, selection, organization, paper_search, paperqa, rerun_stage, resync]
    for flow in flows:
        assert EDITION_PATTERN in str(flow.parameters.properties["edition"]), flow.name
    assert RELEASE_PATTERN in str(build_corpus.parameters.properties["release"])


@pytest.mark.parametrize(
    "tokens",
    [
        ("search", "x", "--k", "\u0663"),
        ("search", "x", "--k", "1_0"),
        ("search", "x", "--k", "-3"),
        ("search", "x", "--before", "\u0662\u0660\u0662\u0664-01-01"),
        ("build", "--workers", "\u0663"),
        ("build", "--memory-gib", "\u0663"),
        ("rerun", "papers", "--max-usd", "\u0663"),
        ("audit", "surveys", "--n", "\u0663"),
        ("edition", "mindmap", "\u0663"),
        ("demo", "--papers", "\u0663"),
    ],
)
def test_digits_of_other_scripts_are_no_digits(arena: Arena, tokens: tuple[str, ...]) -> None:
    code, out, err = arena(*tokens)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert tokens[-1] in err or "expected" in err


def test_every_number_of_a_command_is_read_that_way() -> None:
    def walk(app: App) -> Iterator[App]:
        for command in app.resolved_commands().values():
            yield command
            yield from walk(command)

    loose = [
        f"{command.name} {argument.name}"
        for command in walk(cli.app)
        if command.default_command and command.default_command.__module__.startswith("flows.")
        for argument in command.assemble_argument_collection()
        if argument.hint in (int, float, float | None)
        and len(argument.keys) == 0
        and argument.parameter.converter is not NUMBER.converter
    ]
    assert loose == []
