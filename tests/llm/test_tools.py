"""Functions that a model may call: told, called, answered, and part of the key only where there are any."""

import json

from schemas.llm import Message, Tool, ToolCall
from tasks.llm.blocking import BlockingDoor
from tasks.llm.key import request_key
from tests.llm.conftest import SECRET, question
from tests.llm.scripted_server import as_json, completion

LOOK = Tool(name="look", description="Looks.", parameters={"type": "object", "properties": {"at": {"type": "string"}}})


def called(*functions, content=None):
    calls = [{"id": f"c{i}", "type": "function", "function": function} for i, function in enumerate(functions)]
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return as_json({"choices": [{"message": message, "finish_reason": "tool_calls"}], "model": "m"})


def test_tools_are_told_and_calls_come_back_with_their_answers(server, settings):
    server.play([called({"name": "look", "arguments": '{"at": "x"}'}), completion("seen")])
    with BlockingDoor(settings(), SECRET) as door:
        first = door.ask(question(tools=(LOOK,)))
        assert (first.outcome, first.text, first.tool_calls) == (
            "ok", "", (ToolCall(id="c0", name="look", arguments='{"at": "x"}'),),
        )  # fmt: skip
        asked = question(tools=(LOOK,))
        turns = (
            Message(role="assistant", content="", tool_calls=first.tool_calls),
            Message(role="tool", content="a wall", tool_call_id="c0"),
        )
        assert door.ask(asked.model_copy(update={"messages": asked.messages + turns})).text == "seen"
    sent = server.seen[1].json
    assert sent["tools"] == [{"type": "function", "function": LOOK.model_dump()}]
    assert sent["messages"][1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "x"}'}
    assert sent["messages"][2] == {"role": "tool", "content": "a wall", "tool_call_id": "c0"}


def test_odd_calls_are_read_or_passed_over(server, settings):
    server.play([called({"name": "look", "arguments": {"at": 1}}, {"arguments": "{}"}, {"name": "look"})])
    with BlockingDoor(settings(), SECRET) as door:
        found = door.ask(question(tools=(LOOK,))).tool_calls
    assert [json.loads(call.arguments) for call in found] == [{"at": 1}, {}]


def test_a_request_without_tools_keeps_its_key(server):
    plain = request_key("p", "m", question(), None)
    assert "tools" not in json.loads(plain.parts)
    assert set(json.loads(plain.parts)["messages"][0]) == {"role", "content"}
    assert request_key("p", "m", question(tools=(LOOK,)), None).key != plain.key


def test_a_miss_names_the_tools(server, settings, tmp_path):
    server.play([completion("fine")])
    with BlockingDoor(settings(cache=tmp_path / "c.db"), SECRET) as door:
        door.ask(question())
        assert [d.part for d in door.door.explain_miss(question(tools=(LOOK,))).differences] == ["tools"]
