"""An endpoint that fails: no score is made of it, what was paid is kept, and asking again heals."""

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tasks.demo.standin.recognition import read_question
from tests.flows.conftest import ONE, Arena
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion, error

ZERO_SHOT = ("run", "discovery", "--baselines", "zero_shot", "--retrievers", "bm25", *ONE)


class Endpoint:
    """Answers with a topic's last word; `fails` says which titles get an error instead."""

    def __init__(self, server: ScriptedServer) -> None:
        self.asked: list[str] = []
        self.fails = lambda title: False
        self.first_good = 10**9
        server.play(self._answer)

    def _answer(self, seen: Seen, number: int) -> Answer:
        title = read_question(seen.json).first("title")
        if self.fails(title) or len(self.asked) >= self.first_good:
            return error(500, "out of order")
        self.asked.append(title)
        return completion(title.split()[-1])


@pytest.fixture
def endpoint(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Endpoint:
    told = {
        "retry": {"tries": 2, "base_s": 0.001},
        "prices": {"m": {"input": 1, "output": 1}},
        "outage": {"first": 4, "share": 0.25, "window": 20},
        "concurrency": 4,
    }
    (tmp_path / "llm.json").write_text(json.dumps(told))
    for name, value in {
        "BASE_URL": server.url, "MODEL": "m", "API_KEY": "any", "SETTINGS": tmp_path / "llm.json",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"ARENA_LLM_{name}", str(value))
    return Endpoint(server)


def elsewhere(arena: Arena) -> Path:
    """A copy of the store, for the undisturbed run."""
    import shutil

    return Path(shutil.copytree(arena.folder / "store", arena.folder / "elsewhere"))


def fails(arena: Arena, *command: object) -> str:
    code, _, err = arena(*command)
    (line,) = [line for line in err.splitlines() if line.startswith("arena: ")]
    assert code == 1
    return line


@pytest.mark.parametrize("good", [0, 3])
def test_an_outage_fails_the_stage_and_the_same_command_completes_it(
    arena: Arena, endpoint: Endpoint, good: int
) -> None:
    undisturbed = arena.json(*ZERO_SHOT, "--root", elsewhere(arena))
    topics = endpoint.asked.copy()
    endpoint.asked.clear()
    endpoint.first_good = good
    line = fails(arena, *ZERO_SHOT)
    assert "calls failed" in line and "HTTP 500: out of order" in line and "run it again" in line
    assert len(endpoint.asked) == good
    assert not list((arena.folder / "store" / "run").glob("*/manifest.json"))

    endpoint.first_good = 10**9
    assert arena.json(*ZERO_SHOT)["datasets"] == undisturbed["datasets"]
    assert Counter(endpoint.asked) == Counter(topics), "what was paid before the outage is not asked again"


def test_a_topic_that_fell_back_is_marked_and_asked_again_alone(arena: Arena, endpoint: Endpoint) -> None:
    undisturbed = arena.json(*ZERO_SHOT, "--root", elsewhere(arena))
    chosen = sorted(set(endpoint.asked))[: max(1, len(endpoint.asked) // 10)]
    endpoint.asked.clear()
    endpoint.fails = lambda title: title in chosen
    found = arena.json(*ZERO_SHOT)
    (row,) = found["scores"]["graded"]
    assert row["fallbacks"] == len(chosen)
    assert f"({len(chosen)} fallbacks)" in arena(*ZERO_SHOT)[1]
    (slot,) = [slot for slot in found["datasets"] if slot.startswith("run/")]
    dataset = arena.folder / "store" / "run" / found["datasets"][slot]["key"]
    counts = json.loads((dataset / "manifest.json").read_text())["counts"]
    assert counts["dropped"]["fallback"] == len(chosen)
    outcomes = pl.concat(pl.read_parquet(path) for path in dataset.glob("outcomes-*"))
    assert outcomes["fallback"].sum() == len(chosen)
    assert arena("report")[0] == 0

    endpoint.asked.clear()
    (arena.folder / "store" / "llm" / "calls.sqlite").unlink()  # the other topics are kept without it, too
    endpoint.fails = lambda title: False
    expected = arena.json("rerun", "--outcome", "failed", "--dry-run")
    assert [(step["slot"], step["calls"], step["cached"]) for step in expected["estimate"]] == [(slot, len(chosen), 0)]
    assert expected["later"] == [f"scores/{slot.removeprefix('run/')}", "report"]
    assert not endpoint.asked
    healed = arena.json("rerun", "--outcome", "failed")
    assert Counter(endpoint.asked) == Counter(chosen)
    assert {slot: healed["datasets"][slot] for slot in undisturbed["datasets"]} == undisturbed["datasets"]
    assert arena.json("rerun", "--outcome", "failed")["datasets"] == {}


def test_rerun_says_what_to_name(arena: Arena) -> None:
    assert "--outcome failed" in arena("rerun")[2]


def test_an_empty_reply_is_asked_for_again_and_a_kept_one_once_it_is_forgotten(
    arena: Arena, endpoint: Endpoint, server: ScriptedServer
) -> None:
    undisturbed = arena.json(*ZERO_SHOT, "--root", elsewhere(arena))
    empty, refused = sorted(set(endpoint.asked))[:2]
    bad = {empty: completion(""), refused: completion(None, refusal="I will not")}
    asked: list[str] = []

    def answer(seen: Seen, number: int) -> Answer:
        asked.append(title := read_question(seen.json).first("title"))
        return bad.get(title) or completion(title.split()[-1])

    server.play(answer)
    assert arena.json(*ZERO_SHOT)["scores"]["graded"][0]["fallbacks"] == 2
    asked.clear()
    bad.clear()
    arena.json("rerun", "--outcome", "failed")
    assert set(asked) == {empty}, "a refusal is kept"
    (row,) = arena.json("llm", "forget", "--outcome", "refused", "--dry-run")
    assert (row["outcome"], row["model"], row["calls"]) == ("refused", "m", 1)
    assert arena.json("llm", "forget", "--outcome", "refused") == [row]
    assert arena.json("llm", "forget", "--outcome", "refused") == []
    healed = arena.json("rerun", "--outcome", "failed")
    assert set(asked) == {empty, refused}
    assert {slot: healed["datasets"][slot] for slot in undisturbed["datasets"]} == undisturbed["datasets"]
