"""Mind-maps through the command line: built for an edition, drawn, and scored from files."""

import json
from pathlib import Path

import pytest

from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import ONE, Arena
from tests.index.conftest import save_tiny_model

GOLD = {"label": "root", "children": [{"label": "graphs"}, {"label": "networks"}]}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), seed=0)


def test_mind_maps_of_an_edition_are_built_scored_and_drawn(arena: Arena, encoder: Path) -> None:
    store = Store(arena.folder / "store")
    topics = store.open(Editions(store).load("2026-01-06").slots["topics"]).table()
    topic = topics.filter(topics["outcome"].to_numpy(zero_copy_only=False) == "kept")["topic_id"][0].as_py()
    maps = arena.folder / "maps.jsonl"
    maps.write_text(json.dumps({"corpusid": topic, "tree": GOLD}))
    found = arena.json("run", "organization", "--maps", maps, "--builders", "single", "--encoder", encoder, *ONE)
    (row,) = found["scores"]
    assert (row["system"], row["topics"], row["covered"], row["gold nodes"]) == ("single", 1, 1, 3.0)
    assert arena("edition", "mindmap", topic, "--to", arena.folder / "drawn")[0] == 0
    assert "graphs" in (arena.folder / "drawn" / f"{topic}.single.svg").read_text()
    code, _, err = arena("edition", "mindmap", -5, "--to", arena.folder / "drawn")
    assert (code, "no system built a tree of topic -5" in err) == (2, True)


def test_trees_and_headings_in_files_are_scored(arena: Arena, encoder: Path) -> None:
    gold, pred = arena.folder / "gold.jsonl", arena.folder / "pred.jsonl"
    gold.write_text("\n".join(json.dumps({"id": name, "tree": GOLD}) for name in ("same", "missing")))
    pred.write_text(json.dumps({"id": "same", "tree": GOLD}))
    files = ("--gold", gold, "--pred", pred, "--encoder", encoder)
    trees = arena.json("score", "tree", *files, "--svg", arena.folder / "svg")
    same, missing = trees["trees"]
    assert (same["built"], same["tsd_0.8"], same["hsr"]) == ("yes", 0, pytest.approx(1))
    assert (missing["built"], missing["hsr"]) == ("no", 0)
    assert trees["mean"]["hsr"] == pytest.approx(0.5)
    assert [path.name for path in (arena.folder / "svg").iterdir()] == ["00000.svg"]
    headings = arena.json("score", "headings", *files)
    assert [row["hsr"] for row in headings["trees"]] == [same["hsr"], missing["hsr"]]
    pred.write_text(json.dumps({"id": "other", "tree": GOLD}))
    code, _, err = arena("score", "tree", *files)
    assert (code, "pred.jsonl has other" in err) == (2, True)
