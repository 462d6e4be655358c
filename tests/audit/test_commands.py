"""The commands `arena audit`: from an edition to a sheet, and from a filled sheet to shares."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from flows.cli import BAD_USAGE, FAILED, OK, app
from schemas.tables.papers import PAPERS
from tasks.store.editions import Editions
from tests.corpus.conftest import Corpus

Arena = Callable[..., tuple[int, str]]


@pytest.fixture
def arena(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Arena:
    """Runs a command over the store of the test; returns exit code and output."""

    def run(*tokens: str) -> tuple[int, str]:
        code = app.meta([*tokens], exit_on_error=False, print_error=False) or OK
        captured = capsys.readouterr()
        return code, captured.out or captured.err

    return run


def test_from_an_edition_to_the_share_of_right_surveys(arena: Arena, tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "root")
    papers = [{"corpus_id": i, "title": f"Survey {i}", "date": date(2020, 1, 1)} for i in range(9)]
    slots = {"surveys": corpus.accepted(*range(9)), "papers": corpus.given("papers", {PAPERS: papers})}
    Editions(corpus.store).record("2026-01-06", "2026-01-06", slots)
    where = ("--root", str(tmp_path / "root"), "--to", str(tmp_path / "sheets"))
    code, said = arena("audit", "surveys", "--n", "4", "--json", *where)
    assert code == OK, said
    table = Path(json.loads(said)["csv"])
    lines = table.read_text().splitlines()
    words = ["", "yes", "yes", "yes", "no"]
    table.write_text("\n".join(line + word for line, word in zip(lines, words, strict=True)))
    code, said = arena("audit", "score", str(table), "--json")
    (question,) = json.loads(said)["questions"]
    assert (question["ours"]["share"], question["paper"]["share"]) == (0.75, 0.92)
    code, said = arena("audit", "score", str(table))
    assert code == OK and "0.75" in said and "0.92" in said
    assert arena("audit", "surveys", *where)[0] == FAILED  # filled already
    code, said = arena("audit", "mindmaps", *where)
    assert code == BAD_USAGE and said.startswith("arena: edition 2026-01-06 has no mindmaps; run: arena ")
    assert arena("audit", "surveys", "--n", "0", *where)[0] == BAD_USAGE
