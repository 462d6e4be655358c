"""Runs that ask a model, through the command line: costs, sealed replays, misses, and keys that stay secret."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from flows.pipeline.models import model_access
from flows.pipeline.stages import StageControl
from schemas.llm_settings import Cap, LlmAccess
from tests.flows.conftest import ONE, Arena
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion, error

ZERO_SHOT = ("run", "discovery", "--baselines", "zero_shot", "--retrievers", "bm25", *ONE)
SECRET = "sk-never-to-be-seen"


@pytest.fixture
def endpoint(stand_in: LlmAccess, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Points the environment at the stand-in."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ARENA_LLM_REPLAY", raising=False)
    monkeypatch.setenv("ARENA_LLM_BASE_URL", stand_in.settings.base_url)
    monkeypatch.setenv("ARENA_LLM_PROVIDER", "stand-in")
    monkeypatch.setenv("ARENA_LLM_MODEL", "stand-in")
    monkeypatch.setenv("ARENA_LLM_API_KEY", SECRET)
    return monkeypatch


def test_a_sealed_edition_is_rebuilt_offline_to_the_same_bytes(arena: Arena, endpoint: pytest.MonkeyPatch) -> None:
    root = arena.folder / "store"
    shutil.copytree(root, arena.folder / "elsewhere")
    found = arena.json(*ZERO_SHOT)
    (row,) = found["scores"]["graded"]
    assert row["run"] == "zero_shot.bm25.abstract+stand-in"
    assert row["covered"] == row["topics"] > 0
    costs = arena.json("llm", "cost")
    assert [call["prompt"] for call in costs["calls"]] == ["zero_shot@2"]
    assert costs["calls"][0]["calls"] == row["topics"]
    replay = arena.folder / "calls.jsonl"
    assert arena("llm", "seal", "--to", replay)[0] == 0
    assert arena("llm", "export", "--to", arena.folder / "calls.parquet")[0] == 0
    assert pl.read_parquet(arena.folder / "calls.parquet")["prompt"].to_list() == ["zero_shot@2"] * row["topics"]
    assert arena.json("llm", "why-miss", "--replay", replay) == {"asked": row["topics"], "missed": []}

    endpoint.setenv("ARENA_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    endpoint.delenv("ARENA_LLM_API_KEY")
    endpoint.setenv("ARENA_LLM_REPLAY", str(replay))
    assert arena.json(*ZERO_SHOT, "--root", arena.folder / "elsewhere")["datasets"] == found["datasets"]

    endpoint.setenv("ARENA_LLM_MODEL", "another")
    code, _, err = arena(*ZERO_SHOT, "--root", arena.folder / "elsewhere")
    assert code == 1
    assert "model: stored '\"stand-in\"', asked '\"another\"'" in err


def test_a_dry_run_estimates_the_cost_and_calls_no_model(arena: Arena, endpoint: pytest.MonkeyPatch) -> None:
    endpoint.setenv("ARENA_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    endpoint.setenv("ARENA_LLM_MODEL", "gpt-4-0613")
    found = arena.json(*ZERO_SHOT, "--dry-run")
    (row,) = found["estimate"]
    assert row["calls"] == row["subjects"] > 0
    assert row["usd"] == found["usd"] == pytest.approx((row["input_tokens"] * 30 + row["output_tokens"] * 60) / 1e6)
    assert not (arena.folder / "store" / "run").exists()


def test_a_dry_run_knows_what_is_there_and_what_the_system_used(arena: Arena, endpoint: pytest.MonkeyPatch) -> None:
    arena.json(*ZERO_SHOT)
    used = arena.json("llm", "cost")["calls"][0]
    (there,) = arena.json(*ZERO_SHOT, "--dry-run")["estimate"]
    assert (there["calls"], there["input_tokens"], there["usd"]) == (0, 0, 0)
    (other,) = arena.json(*ZERO_SHOT, "--cutoff", 7, "--dry-run")["estimate"]
    assert other["measured"]
    assert (other["calls"], other["input_tokens"]) == (used["calls"], used["input_tokens"])


def test_building_with_a_model_is_rehearsed_with_the_real_prompts(arena: Arena, endpoint: pytest.MonkeyPatch) -> None:
    build = ("build", "--survey-selector", "model", "--buckets", 1, *ONE)
    (row,) = (found := arena.json(*build, "--dry-run"))["estimate"]
    assert (row["slot"], row["cached"]) == ("surveys", 0)
    assert "topics" in found["later"]
    assert arena.json("llm", "cost")["calls"] == [], "nothing was asked"

    arena.json(*build)
    (used,) = arena.json("llm", "cost")["calls"]
    assert row["subjects"] > row["calls"] == used["calls"] > 0
    assert row["input_tokens"] == pytest.approx(used["input_tokens"], rel=0.5)

    there = arena.json(*build, "--dry-run")
    assert (there["estimate"][0]["calls"], there["later"]) == (0, [])
    verdicts = next((arena.folder / "store").glob("surveys/*/calls-*.parquet"))
    verdicts.parent.rename(arena.folder / "lost")
    for command in (build, ("rerun", "surveys", *ONE)):
        lost = arena.json(*command, "--dry-run")
        (again,) = lost["estimate"]
        assert (again["calls"], again["cached"], again["usd"]) == (used["calls"], used["calls"], 0)
        assert "topics" in lost["later"]

    arena.json("rerun", "surveys", *ONE)
    assert arena.json("rerun", "surveys", *ONE, "--dry-run")["estimate"][0]["calls"] == 0
    forced = arena.json("rerun", "papers", "--force", *ONE, "--dry-run")
    assert forced["estimate"] == [] and "surveys" in forced["later"], "their papers may change"
    (verdicts,) = (arena.folder / "store").glob("surveys/*/calls-*.parquet")
    content = bytearray(verdicts.read_bytes())
    content[len(content) // 2] ^= 1
    verdicts.write_bytes(content)
    (damaged,) = arena.json("rerun", "--damaged", *ONE, "--dry-run")["estimate"]
    assert (damaged["slot"], damaged["calls"], damaged["cached"]) == ("surveys", used["calls"], used["calls"])


@pytest.mark.parametrize("cap", [("--max-tokens", 10), ("--stage-tokens.run", 10)])
def test_caps_in_tokens_and_of_stages_can_be_set(
    arena: Arena, endpoint: pytest.MonkeyPatch, cap: tuple[str, int]
) -> None:
    (row,) = arena.json(*ZERO_SHOT, *cap)["scores"]["graded"]
    assert row["topics"] > row["covered"] == 0
    calls = pl.read_parquet(list((arena.folder / "store" / "run").glob("*/calls-*.parquet")))
    assert set(calls["outcome"]) == {"over_budget"}


def test_caps_of_the_settings_file_hold_unless_the_command_sets_others(
    tmp_path: Path, endpoint: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "llm.json"
    file.write_text(json.dumps({"budget": {"cap": {"tokens": 7, "usd": 1}, "stages": {"run": {"usd": 2}}}}))
    endpoint.setenv("ARENA_LLM_SETTINGS", str(file))
    access = model_access(tmp_path, StageControl(max_usd=5, stage_tokens={"surveys": 3}).budget("e"))
    assert access
    budget = access.settings.budget
    assert (budget.run, budget.cap) == ("e", Cap(usd=5, tokens=7))
    assert dict(budget.stages) == {"run": Cap(usd=2), "surveys": Cap(tokens=3)}
    with pytest.raises(ValueError, match="there is no stage runs"):
        StageControl(stage_usd={"runs": 1})


def test_the_key_is_in_no_file_and_no_output(arena: Arena, endpoint: pytest.MonkeyPatch) -> None:
    told = [*arena(*ZERO_SHOT), *arena("report"), *arena("llm", "cost")]
    endpoint.setenv("ARENA_LLM_MODEL", "no-such-model")
    told += arena(*ZERO_SHOT, "--verbose")
    assert SECRET not in json.dumps(told)
    files = [path for path in arena.folder.rglob("*") if path.is_file()]
    assert any(path.name == "calls.sqlite" for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ARENA_LLM_BASE_URL": "", "ARENA_LLM_API_KEY": ""}, "set ARENA_LLM_BASE_URL and ARENA_LLM_API_KEY"),
        ({"ARENA_LLM_API_KEY": ""}, "ARENA_LLM_API_KEY"),
        ({"ARENA_LLM_MODEL": ""}, "--model or ARENA_LLM_MODEL"),
        ({"ARENA_LLM_MODEL": "no-such-model"}, "no-such-model"),
        ({"ARENA_LLM_BASE_URL": "http://127.0.0.1:9/v1"}, "127.0.0.1:9"),
    ],
)
def test_an_error_of_all_calls_is_one_line_that_says_what_to_set(
    changes: dict[str, str],
    told: str,
    arena: Arena,
    endpoint: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings = tmp_path / "llm.json"
    settings.write_text('{"retry": {"tries": 2, "base_s": 0.01}}')
    endpoint.setenv("ARENA_LLM_SETTINGS", str(settings))
    for name, value in changes.items():
        endpoint.setenv(name, value) if value else endpoint.delenv(name)
    code, _, err = arena(*ZERO_SHOT)
    lines = [line for line in err.splitlines() if line.startswith("arena: ")]
    assert code != 0
    assert len(lines) == 1
    assert told in lines[0]


def test_a_check_prints_the_profile_to_paste(
    arena: Arena, endpoint: pytest.MonkeyPatch, server: ScriptedServer, tmp_path: Path
) -> None:
    def script(seen: Seen, number: int) -> Answer:
        if seen.method == "GET":
            return error(404, "none here")
        return error(400, "no temperature") if "temperature" in seen.json else completion('{"word": "a", "number": 3}')

    server.play(script)
    endpoint.setenv("ARENA_LLM_BASE_URL", server.url)
    found = arena.json("llm", "check", "m-1")
    assert found["changes"] == {"refuses": ["temperature"]}
    assert found["findings"]["JSON schema"] == "works"
    code, out, err = arena("llm", "check", "m-1")
    assert code == 0 and SECRET not in out + err
    file = tmp_path / "models.toml"
    file.write_text(out[out.index("[profiles") :])
    endpoint.setenv("ARENA_LLM_SETTINGS", str(file))
    assert "The profiles that apply fit (m-1)." in arena("llm", "check", "m-1")[1]
    endpoint.setenv("ARENA_LLM_REPLAY", str(file))
    assert "a replay file cannot be checked" in arena("llm", "check", "m-1")[2]
