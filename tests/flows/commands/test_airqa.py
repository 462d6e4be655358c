"""AirQA as a whole: command, flow, pages, a second run, and faulty files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import cli
from flows.jobs.paperqa import paperqa
from flows.pipeline.machine import Machine
from flows.pipeline.plans.paperqa import DEFAULT_BASELINES, PaperQaFiles, PaperQaPlan, plan_runs
from schemas.llm import ModelName
from tasks.demo.standin.server import NAME, StandIn, StandInSettings
from tasks.paperqa.baseline import all_paperqa_baselines
from tasks.paperqa.scores import AnswerScoreSettings
from tests.index.conftest import save_tiny_model
from tests.paperqa.conftest import BIRD, PAPERS, minimal_pdf, write_records

SCRIPT = "<script>alert(1)</script>"
BASELINES = ("classic_rag", "hybrid_agent")


def arena(*tokens: object) -> int:
    return cli.app.meta([str(token) for token in tokens], exit_on_error=False, print_error=False) or 0


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Points the environment at the stand-in; the file gets a line for each of its calls."""
    log = tmp_path / "asked.log"
    stand_in = StandIn(StandInSettings(log=log))
    for name, value in {"BASE_URL": stand_in.url, "MODEL": NAME, "PROVIDER": NAME, "API_KEY": "none"}.items():
        monkeypatch.setenv(f"ARENA_LLM_{name}", value)
    yield log
    stand_in.close()


@pytest.fixture
def files(tmp_path: Path) -> PaperQaFiles:
    """Two questions on four papers, with one PDF."""
    evaluator = {
        "eval_func": "eval_reference_answer_with_llm",
        "eval_kwargs": {"reference_answer": "birds", "question": "q"},
    }
    examples = [
        {
            "uuid": f"{number:08d}-0000-5000-8000-{0:012d}",
            "question": f"Which song do birds sing {SCRIPT} {number}\x08?",
            "answer_format": "",
            "tags": ["single", "text", "subjective"],
            "anchor_pdf": [BIRD],
            "reference_pdf": [],
            "conference": [],
            "evaluator": evaluator,
        }
        for number in range(2)
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, examples)))
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "pdfs" / f"{BIRD}.pdf").write_bytes(minimal_pdf("A sparrow"))
    metadata = write_records(tmp_path / "metadata", PAPERS)
    assert arena("airqa", "make-up", metadata, tmp_path / "by-old-name") == 0
    assert arena("airqa", "synthesize", metadata, tmp_path / "processed") == 0
    assert [path.name for path in sorted((tmp_path / "processed").iterdir())] == [
        path.name for path in sorted((tmp_path / "by-old-name").iterdir())
    ]
    return PaperQaFiles(
        questions=tmp_path / "q.jsonl", metadata=metadata, processed=tmp_path / "processed", pdfs=tmp_path / "pdfs"
    )


@pytest.mark.usefixtures("prefect_server")
def test_from_files_to_pages_and_a_second_run_asks_nothing(
    endpoint: Path, files: PaperQaFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = save_tiny_model(tmp_path / "tiny", seed=0)
    paths = [part for name, path in files for part in (f"--{name}", path)]
    command = (
        "airqa",
        "run",
        *paths,
        "--encoder",
        model,
        "--baselines",
        *BASELINES,
        "--judge",
        NAME,
        "--workers",
        1,
        "--to",
        tmp_path / "page",
    )
    capsys.readouterr()
    assert arena(*command, "--root", tmp_path / "root", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    tags = list(found["means"])
    assert tags == sorted(f"{name}+stand-in{scope}+model" for name in BASELINES for scope in ("", "+library"))
    assert [found["means"][tag]["all"]["questions"] for tag in tags] == [2, 2, 2, 2]
    page = (tmp_path / "page" / "report.html").read_text()
    drilled = (tmp_path / "page" / "questions" / f"{tags[-1]}.html").read_text()
    assert "names end in +stand-in" in page
    assert "made up from their abstracts" in page
    assert "39.6" in page
    assert "by the papers that a system may use" in page
    assert "The judge of some runs is the model that answered" in page
    assert SCRIPT not in page + drilled
    assert "&lt;script&gt;" in drilled
    assert "retrieve_from_database" in drilled
    assert "words are shared" in drilled

    asked = endpoint.read_text()
    assert arena(*command, "--root", tmp_path / "root", "--json") == 0
    assert json.loads(capsys.readouterr().out)["datasets"] == found["datasets"]
    assert endpoint.read_text() == asked

    plan = PaperQaPlan(baselines=BASELINES, encoder=str(model), judge=NAME)
    built = paperqa(files, "airqa", plan, machine=Machine(root=tmp_path / "root", workers=1))
    assert {slot: ref.key for slot, ref in built.items()} == {
        slot: ref["key"] for slot, ref in found["datasets"].items()
    }


def test_both_scopes_run_where_they_differ_and_nobody_judges_unasked():
    model = ModelName(provider="p", model="m")
    runs, scores = [], []
    for step in plan_runs(PaperQaPlan(baselines=("full_text", "sql_agent")), model, None):
        (scores if isinstance(step.settings, AnswerScoreSettings) else runs).append(step)
    assert [step.slot for step in runs] == [
        "airqa/run/full_text+m",
        "airqa/run/sql_agent+m",
        "airqa/run/sql_agent+m+library",
    ]
    assert [step.settings.scope for step in runs] == ["named", "named", "library"]
    assert [step.settings.judge for step in scores] == [None] * 3


def test_every_system_runs_unless_others_are_asked_for():
    assert set(DEFAULT_BASELINES) == set(all_paperqa_baselines())


def test_answers_of_others_are_scored_from_a_file(
    files: PaperQaFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str], endpoint: Path
):
    uuids = [json.loads(line)["uuid"] for line in files.questions.read_text().splitlines()]
    lines, whole = tmp_path / "a.jsonl", tmp_path / "a.json"
    lines.write_text(json.dumps({"uuid": uuids[1], "answer": "birds"}))
    whole.write_text(json.dumps({uuids[1]: "birds"}))
    capsys.readouterr()
    for path in (lines, whole):
        assert arena("airqa", "score", files.questions, path, "--judge", NAME, "--root", tmp_path / "r", "--json") == 0
        means = json.loads(capsys.readouterr().out)["means"]
        assert (means["all"]["correct"], means["all"]["count"], means["all"]["score"]) == (1, 2, 0.5)
    lines.write_text("\n".join([lines.read_text()] * 2))
    assert arena("airqa", "score", files.questions, lines) == 1
    assert "answered twice" in capsys.readouterr().err


def test_a_check_reports_warnings_and_errors(files: PaperQaFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert arena("airqa", "check", files.questions, "--metadata", files.metadata) == 0
    assert "W13" in capsys.readouterr().out
    (tmp_path / "bad.jsonl").write_text(
        files.questions.read_text().replace("eval_reference_answer_with_llm", "os.system")
    )
    assert arena("airqa", "check", tmp_path / "bad.jsonl", "--json") == 1
    assert {"V5"} <= {finding["rule"] for finding in json.loads(capsys.readouterr().out)}


def test_a_dry_run_asks_nothing(
    endpoint: Path, files: PaperQaFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_tiny_model(tmp_path / "tiny", seed=0)
    paths = [part for name, path in files for part in (f"--{name}", path)]
    last = ("--judge", NAME, "--root", tmp_path / "root", "--dry-run", "--json")
    capsys.readouterr()
    command = ("airqa", "run", *paths, "--encoder", model, "--baselines", *BASELINES, "--scopes", "named")
    assert arena(*command, "--workers", 1, *last) == 0
    found = json.loads(capsys.readouterr().out)
    once, agent = found["estimate"]
    assert (once["subjects"], once["calls"], once["cached"]) == (2, 2, 0)
    assert agent["calls"] > 2 * agent["subjects"], "an agent asks several times"
    assert [slot.split("/")[1] for slot in found["later"]] == ["scores", "scores"]

    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({f"{0:08d}-0000-5000-8000-{0:012d}": "sparrows sing"}))
    assert arena("airqa", "score", files.questions, answers, *last) == 0
    judged = json.loads(capsys.readouterr().out)
    assert (judged["calls"], judged["cached"]) == (1, 0)

    handed = tmp_path / "handed.jsonl"
    handed.write_text(json.dumps({"topic": f"{0:08d}-0000-5000-8000-{0:012d}", "answer": "sparrows sing"}))
    named = ("--task", "paperqa", "--system", "theirs", "--system-version", "1", "--edition", "airqa")
    assert arena("submit", handed, *named, "--workers", 1, *last) == 0
    (scores,) = json.loads(capsys.readouterr().out)["estimate"]
    assert (scores["slot"], scores["calls"]) == ("airqa/scores/theirs@1", 1)
    assert not endpoint.exists()
