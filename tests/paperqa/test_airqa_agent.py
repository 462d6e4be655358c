"""Agents in the dialects of real models: forms of calls, plain answers, long results, full contexts, reasoning."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.llm import Reply
from tasks.llm.asker import Asker, open_door
from tasks.paperqa.actions import actions, show_part
from tasks.paperqa.agent import run_agent
from tasks.paperqa.baseline import Answered, Kit, Limits
from tasks.paperqa.call_forms import read_call
from tasks.paperqa.desk import PaperQaDesk
from tasks.paperqa.paper_library import PaperLibrary
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, as_json, completion, error
from tests.llm.test_tools import called
from tests.paperqa.conftest import BIRD, ask
from tests.paperqa.test_airqa_systems import MODEL, access, act

CAN = actions("retrieve_from_database", "retrieve_from_vectorstore", "calculate", "view_image")
DONE = called({"name": "generate_answer", "arguments": '{"answer": "x"}'})
Run = Callable[..., Answered]


@pytest.fixture
def agent(library: PaperLibrary, server: ScriptedServer) -> Run:
    def go(script: Any, protocol: Any = "functions", llm: dict[str, Any] | None = None, **limits: Any) -> Answered:
        server.play(script)
        given = ask("Which bird?", anchors=(BIRD,))
        with open_door(access(server, **(llm or {})), MODEL) as door, PaperQaDesk(given, library) as desk:
            return run_agent(given, Kit(desk, Asker(door, "s", MODEL, "q"), Limits(**limits), protocol), CAN)

    return go


TWICE = json.dumps(json.dumps({"expr": "6 * 7"}))


@pytest.mark.parametrize(
    "reply",
    [
        completion('<tool_call>\n{"name": "calculate", "arguments": {"expr": "6 * 7"}}\n</tool_call>'),
        completion('I compute.\n<tool_call>\n{"name": "calculate", "arguments": {"expr": "6 * 7"}}'),
        completion(f'<tool_call>{{"name": "calculate", "arguments": {TWICE}}}</tool_call>'),
        completion(
            "<tool_call>\n<function=calculate>\n<parameter=expr>\n6 * 7\n</parameter>\n</function>\n</tool_call>"
        ),
        completion('<function=calculate>{"expr": "6 * 7"}</function>'),
        completion('<|python_tag|>{"type": "function", "name": "calculate", "parameters": {"expr": "6 * 7"}}'),
        completion('{"tool_calls": [{"function": {"name": "calculate", "arguments": "{\\"expr\\": \\"6 * 7\\"}"}}]}'),
        completion('{"action": "calculate", "action_input": {"expr": "6 * 7"}}'),
        called({"name": "functions.calculate", "arguments": '{"expr": "6 * 7"}'}),
        called({"name": "calculate", "arguments": TWICE}),
    ],
)
def test_calls_are_read_in_the_forms_in_which_models_write_them(agent: Run, reply: Answer):
    found = agent([reply, DONE])
    assert (found.steps[0].action, found.steps[0].observation) == ("calculate", "42")


def test_arguments_of_the_wrong_type_may_be_json_in_a_string(agent: Run):
    view = {"paper_id": BIRD, "page_number": "1", "bounding_box": "[0, 0, 100, 50]"}
    found = agent([called({"name": "view_image", "arguments": json.dumps(view)}), DONE])
    assert found.steps[0].images == 1


def test_json_that_is_no_call_is_none():
    for text in ('{"name": "Alice"}', '{"answer": 3}', "[1]", '{"tool_calls": []}', '{"function": "calculate"}'):
        assert read_call(Reply(outcome="ok", keys=(), source="cache", text=text)) is None


@pytest.mark.parametrize("protocol", ["functions", "text"])
def test_a_plain_answer_counts_after_a_reminder(agent: Run, server: ScriptedServer, protocol: str):
    found = agent([completion("Let me think."), completion("The sparrow.")], protocol)
    assert (found.answer, found.outcome) == ("The sparrow.", "answered")
    assert "plain words" in (found.note or "")
    assert "generate_answer" in server.seen[1].last
    assert [step.action for step in found.steps] == [None, "generate_answer"]


def test_a_plain_answer_counts_at_once_when_it_says_so_or_is_the_last_turn(agent: Run, server: ScriptedServer):
    assert agent([completion("It sings.\n**Final answer:** the sparrow")]).answer == "the sparrow"
    assert agent([act("calculate", expr="1"), completion("The sparrow.")], turns=2).answer == "The sparrow."
    server.seen.clear()
    broken = agent([completion('<tool_call>{"name": "calculate", "argu')], turns=3)
    assert (broken.outcome, len(server.seen)) == ("turn_limit", 3)


def test_a_long_result_is_shown_whole_in_parts_of_the_length_that_the_prompt_names(agent: Run, server: ScriptedServer):
    sql = "SELECT i, repeat('x', 40) FROM range(60) t(i) ORDER BY i"
    looks = [
        called({"name": "retrieve_from_database", "arguments": json.dumps({"sql": sql, "part": n})}) for n in (1, 2, 9)
    ]
    found = agent([*looks, DONE], observed_characters=2000)
    assert "at most 2000 characters" in server.seen[0].json["messages"][0]["content"]
    first, second, third, _ = (step.observation for step in found.steps)
    assert "part 1 of 2" in first and "part 2 shows the next" in first
    assert max(map(len, (first, second))) < 2200
    rows = [line.split(" | ")[0] for line in (first + "\n" + second).splitlines() if " | " in line]
    assert rows == ["i", *map(str, range(60))]
    assert "2 parts" in third


def test_parts_together_are_the_text():
    text = "\n".join(f"line {i} " + "y" * (i % 90) for i in range(300)) + "z" * 3000
    parts = 1 + (len(text) - 1) // 500
    shown = ""
    for part in range(1, 3 * parts):
        piece, _, told = show_part(text, part, 1000).rpartition("\n(part ")
        shown += piece.replace("\n", "")
        if "shows the next" not in told:
            break
    assert shown.replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert show_part("short", 1, 1000) == "short"


def too_long(most: int) -> Callable[[Seen, int], Answer]:
    """Looks again and again, and answers after six turns; refuses conversations of more characters than `most`."""

    def script(seen: Seen, number: int) -> Answer:
        if len(seen.body) > most:
            told = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
            return error(400, told, code="context_length_exceeded")
        taken = sum(message["role"] == "assistant" for message in seen.json["messages"])
        looks = {"sql": f"SELECT '{'w' * 1500}' AS w{number}"}
        return (
            DONE
            if number > 8 or taken > 8
            else called({"name": "retrieve_from_database", "arguments": json.dumps(looks)})
        )

    return script


def test_an_overflow_drops_old_turns_and_goes_on(agent: Run, server: ScriptedServer):
    base = len(json.dumps([action.tool.model_dump() for action in CAN])) + 6000
    found = agent(too_long(base + 6000), turns=20)
    assert (found.answer, found.outcome) == ("x", "answered")
    refused = [seen for seen in server.seen if len(seen.body) > base + 6000]
    assert refused
    assert server.seen[-1].json["messages"][:2] == server.seen[0].json["messages"]


def test_an_overflow_of_the_last_turn_alone_cuts_what_it_shows(agent: Run, server: ScriptedServer):
    once = called({"name": "retrieve_from_database", "arguments": json.dumps({"sql": "SELECT repeat('w ', 3000)"})})

    def script(seen: Seen, number: int) -> Answer:
        if seen.last.count("w ") > 1000:
            return error(400, "the request exceeds the available context size, try increasing it")
        return DONE if len(seen.json["messages"]) > 2 else once

    assert agent(script).answer == "x"
    assert "cut here" in server.seen[-1].last


def test_a_question_that_never_fits_fails(agent: Run, server: ScriptedServer):
    found = agent([error(400, "prompt is too long: 9000 tokens > 8000 maximum")])
    assert (found.outcome, len(server.seen)) == ("failed", 1)


@pytest.mark.parametrize("wanted", [None, "reasoning_content", "reasoning_details"])
def test_reasoning_goes_back_where_the_server_wants_it(agent: Run, server: ScriptedServer, wanted: str | None):
    call = {"id": "c0", "type": "function", "function": {"name": "calculate", "arguments": '{"expr": "1"}'}}
    told = {"reasoning_content": "I ponder.", "reasoning_details": [{"type": "reasoning.text", "text": "I ponder."}]}
    message = {"role": "assistant", "content": None, "tool_calls": [call], **told}
    thought = as_json({"choices": [{"message": message, "finish_reason": "tool_calls"}], "model": "m"})
    assert agent([thought, DONE], llm={"profiles": {"own": {"reasoning_back": wanted}}}).answer == "x"
    sent = server.seen[1].json["messages"][2]
    assert {name: sent[name] for name in told if name in sent} == ({wanted: told[wanted]} if wanted else {})
