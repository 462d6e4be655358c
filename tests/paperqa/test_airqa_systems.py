"""Systems answer questions: what they are shown, how agents act and end, what a killed run keeps, how answers score."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from schemas.errors import BadInput, ModelError
from schemas.llm import ModelName
from schemas.llm_settings import LlmAccess, LlmSettings
from schemas.paperqa import Question
from tasks.llm.asker import Asker, open_door
from tasks.paperqa.actions import actions
from tasks.paperqa.agent import run_agent
from tasks.paperqa.baseline import Answered, Kit, Limits, all_paperqa_baselines, find_paperqa_baseline
from tasks.paperqa.desk import PaperQaDesk
from tasks.paperqa.files import open_folder, open_questions
from tasks.paperqa.oneshot import read_fenced
from tasks.paperqa.paper_library import PaperLibrary
from tasks.paperqa.runs import PaperQaSettings, ask_system, paperqa_run
from tasks.paperqa.scores import AnswerScoreSettings, paperqa_scores
from tasks.paperqa.store import QuestionSettings, paperqa_questions
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion, error
from tests.llm.test_tools import called
from tests.paperqa.conftest import BIRD, GRAPH, IMAGE, Shelf, ask

MODEL = ModelName(provider="p", model="m")
SECRETS = ("GOLD-SECRET", "STEP-SECRET", "STATE-SECRET", "TAG-SECRET")
ALL_ACTIONS = actions("retrieve_from_database", "retrieve_from_vectorstore", "calculate", "view_image")


def access(server: ScriptedServer, **more: Any) -> LlmAccess:
    plain = {
        "base_url": server.url,
        "provider": "p",
        "model": "m",
        "prices": {"m": {"input": 1, "output": 1}},
        "retry": {"tries": 1},
    }
    return LlmAccess(LlmSettings.model_validate(plain | more), SecretStr("none"))


def example(number: int, **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"{number:08d}-0000-5000-8000-{0:012d}",
        "question": f"Question {number} about a bird song?",
        "answer_format": "a word",
        "tags": ["single", "text", "objective", SECRETS[3]],
        "anchor_pdf": [BIRD],
        "reference_pdf": [IMAGE],
        "conference": [],
        "evaluator": {"eval_func": "eval_string_exact_match", "eval_kwargs": {"gold": SECRETS[0]}},
        "reasoning_steps": [SECRETS[1]],
        "state": {SECRETS[2]: True},
        "annotator": "human",
        **more,
    }


def questions(shelf: Shelf, folder: Path, examples: list[dict[str, Any]]):
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, examples)))
    return shelf.build(paperqa_questions, QuestionSettings(), {"questions": open_questions(folder / "q.jsonl")})


def run(shelf: Shelf, asked, llm: LlmAccess, baseline: str = "question_only", **more: Any):
    settings = PaperQaSettings.model_validate(
        {
            "baseline": baseline,
            "baseline_version": find_paperqa_baseline(baseline).version,
            "model": MODEL,
            "tag": f"{baseline}+m",
            **more,
        }
    )
    pdfs = open_folder("airqa_pdfs", shelf.root / "pdfs")
    return shelf.build(paperqa_run, settings, {"questions": asked, "pdfs": pdfs, **shelf.inputs}, llm=llm)


def act(action: str, **arguments: Any) -> Answer:
    return completion("I think.\n" + json.dumps({"action": action, "arguments": arguments}))


@pytest.mark.parametrize("baseline", all_paperqa_baselines())
def test_nothing_hidden_reaches_a_model(shelf: Shelf, server: ScriptedServer, tmp_path: Path, baseline: str):
    looks = [
        act("retrieve_from_database", sql="SELECT * FROM papers"),
        act("retrieve_from_vectorstore", query="image model", limit=20),
        act("classic_retrieve", query="sparse image model"),
        act("generate_answer", answer="x"),
    ]
    server.play(looks)
    asked = questions(shelf, tmp_path, [example(1), example(2, anchor_pdf=[], conference=["acl2023"])])
    found = shelf.store.open(run(shelf, asked, access(server, concurrency=1), baseline, protocol="text"))
    sent = "\n".join(seen.body.decode() for seen in server.seen)
    assert not [secret for secret in (*SECRETS, IMAGE, "human", "Sparse image model") if secret in sent]
    assert found.table().num_rows == 2
    touched = {paper for papers in found.table("lookups")["papers"].to_pylist() for paper in papers}
    assert touched <= {BIRD, GRAPH}


@pytest.fixture
def agent_kit(library: PaperLibrary, server: ScriptedServer) -> Iterator[Kit]:
    with open_door(access(server), MODEL) as door, PaperQaDesk(ask(), library) as desk:
        yield Kit(desk, Asker(door, "s", MODEL, "q"), Limits())


@pytest.fixture
def agent(library: PaperLibrary, server: ScriptedServer):
    def go(script, protocol="text", anchors=(BIRD,), spend=None, **limits: Any):
        server.play(script)
        given = ask("Which bird?", anchors=anchors)
        with open_door(access(server, **(spend or {})), MODEL) as door, PaperQaDesk(given, library) as desk:
            return run_agent(given, Kit(desk, Asker(door, "s", MODEL, "q"), Limits(**limits), protocol), ALL_ACTIONS)

    return go


def test_an_agent_looks_computes_and_answers_in_words(agent, server: ScriptedServer):
    found = agent(
        [
            act("retrieve_from_database", sql="SELECT title FROM papers"),
            act("retrieve_from_vectorstore", query="song", collection="bm25", kind="abstract"),
            act("calculate", expr="2 * 21"),
            act("view_image", paper_id=BIRD, page_number=1),
            act("generate_answer", answer=["sparrow", 42]),
        ]
    )
    assert (found.answer, found.outcome) == ("['sparrow', 42]", "answered")
    observed = [step.observation for step in found.steps]
    assert "Bird song survey" in observed[0]
    assert "Bird song survey" in observed[1]
    assert observed[2] == "42"
    assert [step.images for step in found.steps] == [0, 0, 0, 1, 0]
    last = server.seen[-1].json["messages"]
    assert last[-1]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "[[observation " in last[3]["content"]


def test_an_agent_acts_by_function_calls_where_the_endpoint_has_them(agent, server: ScriptedServer):
    found = agent(
        [
            called({"name": "calculate", "arguments": '{"expr": "1 + 1"}'}),
            called({"name": "generate_answer", "arguments": '{"answer": true}'}),
        ],
        protocol="functions",
    )
    assert (found.answer, found.outcome) == ("True", "answered")
    assert [tool["function"]["name"] for tool in server.seen[0].json["tools"]] == [a.name for a in ALL_ACTIONS]
    _, _, called_turn, told = server.seen[1].json["messages"]
    assert called_turn["tool_calls"][0]["id"] == told["tool_call_id"]
    assert "2" in told["content"].splitlines()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (completion("I do not know."), "holds no action"),
        (completion('{"action": 3} {"action"'), "holds no action"),
        (completion("{" * 3000), "holds no action"),
        (act("delete_everything"), "there is no action delete_everything"),
        (act("calculate"), "expr: Field required"),
        (act("calculate", expr="1", more=2), "Extra inputs"),
        (completion('{"action": "calculate", "arguments": "x"}'), "Error"),
        (act("calculate", expr="__import__('os')"), "only numbers"),
        (act("retrieve_from_database", sql="DROP TABLE papers"), "one SELECT"),
        (act("retrieve_from_vectorstore", query="x", paper_id=GRAPH), "there is no paper"),
        (act("view_image", paper_id="../../etc/passwd", page_number=1), "there is no paper"),
        (act("view_image", paper_id=BIRD, page_number=9), "there is no page 9"),
        (called({"name": "calculate", "arguments": "{not json"}), "Error"),
    ],
)
def test_what_an_agent_gets_wrong_is_observed_and_costs_a_turn(agent, reply: Answer, told: str):
    found = agent([reply, act("generate_answer", answer="x")], protocol="functions", turns=2)
    assert told in found.steps[0].observation
    assert found.answer == "x"


def test_limits_end_an_agent_with_an_outcome_and_no_answer(agent, server: ScriptedServer):
    again = [act("calculate", expr="1")]
    found = agent(again, turns=3)
    assert (found.answer, found.outcome, len(found.steps)) == (None, "turn_limit", 3)
    assert agent(again, tokens=250).outcome == "token_limit"
    assert agent(again, usd=0.0002).outcome == "cost_limit"
    assert agent([completion(None, refusal="no")]).outcome == "refused"
    assert agent([error(400, "bad")]).outcome == "failed"
    looks = agent([act("view_image", paper_id=BIRD, page_number=1)] * 2 + again, images=1, turns=3)
    assert "no more" in looks.steps[1].observation
    server.seen.clear()
    agent(lambda seen, number: act("calculate", expr=str(number)), turns=9, window=2)
    assert [len(seen.json["messages"]) for seen in server.seen] == [2, 4, 6, 6, 6, 6, 6, 6, 6]


def test_an_interrupted_run_goes_on_without_asking_again(shelf: Shelf, server: ScriptedServer, tmp_path: Path):
    asked = questions(shelf, tmp_path, [example(number, question=f"Resume {number}?") for number in range(40)])
    answered: Counter[str] = Counter()

    def script(seen: Seen, number: int) -> Answer:
        if number == 35:
            return error(401, "key expired")
        answered[seen.last] += 1
        return completion("```txt\nyes\n```")

    server.play(script)
    with pytest.raises(ModelError, match="refused the API key"):
        run(shelf, asked, access(server, concurrency=2), tag="resumed")
    before = len(answered)
    server.play(lambda seen, number: answered.update([seen.last]) or completion("```txt\nyes\n```"))
    found = shelf.store.open(run(shelf, asked, access(server, concurrency=2), tag="resumed"))
    assert 32 <= before < 40
    assert set(answered.values()) == {1}
    assert found.table()["uuid"].to_pylist() == [example(number)["uuid"] for number in range(40)]
    assert found.table()["outcome"].to_pylist() == ["answered"] * 40


def test_each_question_has_its_own_outcome(shelf: Shelf, server: ScriptedServer, tmp_path: Path):
    lost = "99999999-0000-5000-8000-000000000000"
    asked = questions(
        shelf,
        tmp_path,
        [
            example(1, question="Refuse?"),
            example(2, question="Fail?"),
            example(3, question="Say nothing?"),
            example(4, question="Odd\x08 one?", anchor_pdf=[lost]),
            example(5, question="Where?", anchor_pdf=[], conference=["emnlp2020"]),
        ],
    )
    replies = {
        "Refuse?": completion(None, refusal="no"),
        "Fail?": error(400, "bad"),
        "Say nothing?": completion("```txt\n\n```"),
    }
    fine = completion("```txt\na \\ud800 b\n```")
    server.play(lambda seen, _: next((reply for text, reply in replies.items() if text in seen.last), fine))
    found = shelf.store.open(run(shelf, asked, access(server, concurrency=1), "classic_rag"))
    rows = found.table().to_pylist()
    assert [row["outcome"] for row in rows] == ["refused", "failed", "empty", "answered", "answered"]
    assert f"not in the library: {lost}" in rows[3]["note"]
    assert "none of the papers" in rows[4]["note"]
    assert found.manifest.counts.dropped == {"empty": 1, "refused": 1}


@pytest.mark.parametrize("trouble", [ZeroDivisionError("oops"), BadInput("bad")])
def test_a_system_that_breaks_fails_its_question_alone(agent_kit: Kit, trouble: Exception):
    def broken(question: Question, kit: Kit) -> Answered:
        raise trouble

    found = ask_system(broken, ask(), agent_kit)
    assert (found.answer, found.outcome) == (None, "failed")
    assert str(trouble) in (found.note or "")


def test_what_concerns_all_questions_ends_the_run(agent_kit: Kit):
    def keyless(question: Question, kit: Kit) -> Answered:
        raise ModelError("no key")

    with pytest.raises(ModelError, match="no key"):
        ask_system(keyless, ask(), agent_kit)


def test_a_cap_is_an_outcome_of_the_questions_it_reaches(shelf: Shelf, server: ScriptedServer, tmp_path: Path):
    asked = questions(shelf, tmp_path, [example(number, question=f"Cap {number}?") for number in range(3)])
    used = {"prompt_tokens": 2000, "completion_tokens": 1000, "total_tokens": 3000}
    server.play([completion("```txt\nyes\n```", usage=used)])
    budget = {"run": "r", "cap": {"tokens": 4000}}
    found = shelf.store.open(run(shelf, asked, access(server, concurrency=1, budget=budget), tag="capped"))
    outcomes = found.table()["outcome"].to_pylist()
    assert outcomes[0] == "answered"
    assert outcomes[-1] == "over_budget"


def test_answers_are_scored_by_uuid_and_the_judge_is_told_apart(shelf: Shelf, server: ScriptedServer, tmp_path: Path):
    judged = {"eval_func": "eval_reference_answer_with_llm", "eval_kwargs": {"reference_answer": "r", "question": "q"}}
    plain = {"eval_func": "eval_string_exact_match", "eval_kwargs": {"gold": "yes"}}
    other = {**judged, "eval_kwargs": {"reference_answer": "s", "question": "q"}}
    third = {**judged, "eval_kwargs": {"reference_answer": "t", "question": "q"}}
    kinds = [plain, judged, plain, other, third]
    asked = questions(
        shelf,
        tmp_path,
        [
            example(i, question=f"Score {i}?", evaluator=kind, tags=["single", "text", "objective"])
            for i, kind in enumerate(kinds)
        ],
    )

    def script(seen: Seen, number: int) -> Answer:
        if "You judge one answer" in seen.json["messages"][0]["content"]:
            verdicts = {"\nr\n": completion("Same.\n```txt\nTrue\n```"), "\ns\n": error(400, "judge is ill")}
            return next((told for gold, told in verdicts.items() if gold in seen.last), completion("It is right."))
        return completion("no" if "Score 2?" in seen.last else "```txt\nyes\n```")

    server.play(script)
    llm = access(server, concurrency=1)
    done = run(shelf, asked, llm, tag="scored")
    inputs = {"questions": asked, "run": done}
    found = shelf.store.open(
        shelf.build(paperqa_scores, AnswerScoreSettings(judge=MODEL, resamples=200), inputs, llm=llm)
    )
    rows = found.table().to_pylist()
    assert [row["score"] for row in rows] == [1, 1, 0, 0, 0]
    assert [row["outcome"] for row in rows] == ["scored", "scored", "scored", "unscored", "no_verdict"]
    assert [row["judge"] for row in rows] == [None, "p/m", None, "p/m", "p/m"]
    assert "Same." in rows[1]["reason"]
    assert "judge is ill" in rows[3]["reason"]
    means = {row["group"]: row for row in found.table("summaries").to_pylist()}
    assert set(means) == {"all", "single", "text", "objective"}
    assert (means["all"]["mean"], means["all"]["answered"], means["all"]["questions"]) == (0.4, 3, 5)
    assert means["all"]["low"] <= 0.4 <= means["all"]["high"]
    unjudged = shelf.store.open(shelf.build(paperqa_scores, AnswerScoreSettings(resamples=200), inputs))
    assert [row["outcome"] for row in unjudged.table().to_pylist()] == [
        "scored",
        "unscored",
        "scored",
        "unscored",
        "unscored",
    ]
    assert set(unjudged.table()["judge"].to_pylist()) == {None}


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("```txt\na\n```", "a"),
        ("```python\n['a']\n```\nand\n```\nb c\n```", "b c"),
        ("see ```word```", "word"),
        ("  bare ", "bare"),
        ("```txt\nnever closed", "```txt\nnever closed"),
    ],
)
def test_the_last_fenced_block_is_the_answer(reply: str, answer: str):
    assert read_fenced(reply) == answer
