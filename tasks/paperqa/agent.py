"""The agent loop: act, observe, repeat, until the agent answers or reaches a limit."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.llm import Message, Parameters, Reply, ToolCall
from schemas.paperqa import AnswerOutcome, Question
from tasks.llm.prompt import Trusted, delimit, load_prompt
from tasks.paperqa.actions import ANSWER, Action, Observation
from tasks.paperqa.baseline import CHARACTERS_PER_TOKEN, Answered, Kit, Step

OBSERVED_CHARACTERS = 8000
KEPT_CHARACTERS = 4000
"""Characters of an observation that the model reads, and that the trajectory stores."""

_DECODER = json.JSONDecoder()

Turn = tuple[Message, ...]


class _Call(NamedTuple):
    """An action requested by a reply; `id` is set if it was a function call."""

    name: str
    arguments: str
    id: str | None


def run_agent(question: Question, kit: Kit, can: Sequence[Action]) -> Answered:
    """Lets a model act until it answers.

    Args:
        question: The question.
        kit: Desk, model, limits, and whether actions are function calls.
        can: The available actions, including the final answer.

    Returns:
        The answer, or the outcome `turn_limit`, `token_limit`, `cost_limit`, `refused` or `failed` without an answer.

    Source: NeuSym-RAG's ReAct loop: a malformed action gives an error as its observation and uses up the turn.

    Deviates: an agent that reaches a limit has no answer; upstream uses its last observation as the answer.
    """
    prompt = load_prompt("airqa_agent")
    opening = prompt.render(_values(question, kit, can))
    tools = tuple(action.tool for action in can) if kit.protocol == "functions" else ()
    turns: list[Turn] = []
    steps: list[Step] = []
    for _ in range(kit.limits.turns):
        if reached := _limit_reached(kit):
            return Answered(None, *reached, tuple(steps))
        reply = kit.asker.converse(
            _within(opening, turns, kit),
            prompt=prompt.ref,
            parameters=Parameters(max_tokens=kit.limits.written_tokens),
            tools=tools,
        )
        if reply.outcome != "ok":
            ended: AnswerOutcome = "refused" if reply.outcome == "refused" else "failed"
            return Answered(None, ended, reply.reason, tuple(steps))
        call = _read_call(reply)
        observation, done = _act(call, kit, can, sum(step.images for step in steps))
        steps.append(_step(call, reply, observation))
        if done:
            return Answered(observation.text, steps=tuple(steps))
        turns.append(_turn(call, reply, observation))
    return Answered(None, "turn_limit", f"no answer in {kit.limits.turns} turns", tuple(steps))


def _values(question: Question, kit: Kit, can: Sequence[Action]) -> dict[str, Any]:
    return {
        "question": question.question,
        "answer_format": question.answer_format,
        "papers": [card.paper_id for card in kit.desk.anchors],
        "conferences": list(question.conference),
        "actions": Trusted("\n".join(_describe(action) for action in can)),
        "as_text": kit.protocol == "text",
        "turns": kit.limits.turns,
    }


def _describe(action: Action) -> str:
    fields = action.arguments.model_json_schema()["properties"]
    told = [f"{name}{'' if 'default' not in field else ' (optional)'}" for name, field in fields.items()]
    notes = [f"    {name}: {field['description']}" for name, field in fields.items() if "description" in field]
    return "\n".join([f"- {action.name}({', '.join(told)}): {action.description}", *notes])


def _limit_reached(kit: Kit) -> tuple[AnswerOutcome, str] | None:
    calls, limits = kit.asker.calls, kit.limits
    tokens = sum(call.input_tokens + call.output_tokens for call in calls)
    usd = sum(call.cost_usd for call in calls)
    if limits.tokens is not None and tokens >= limits.tokens:
        return "token_limit", f"{tokens} tokens used, the limit is {limits.tokens}"
    if limits.usd is not None and usd >= limits.usd:
        return "cost_limit", f"{usd:.6f} USD spent, the limit is {limits.usd:g}"
    return None


def _within(opening: Turn, turns: Sequence[Turn], kit: Kit) -> tuple[Message, ...]:
    """Returns the opening messages and as many of the latest turns as the window and the context length allow."""
    room = kit.limits.context_tokens * CHARACTERS_PER_TOKEN - _length(opening)
    shown: list[Turn] = []
    for turn in reversed(turns[-kit.limits.window :]):
        room -= _length(turn)
        if room < 0 and shown:
            break
        shown.insert(0, turn)
    return (*opening, *(message for turn in shown for message in turn))


def _length(turn: Turn) -> int:
    return sum(len(piece) for message in turn for piece in message.pieces if isinstance(piece, str))


def _read_call(reply: Reply) -> _Call | None:
    """Returns the first function call of a reply, or else the first JSON object in its text that names an action."""
    for call in reply.tool_calls:
        return _Call(call.name, call.arguments, call.id)
    for found in _objects(reply.text):
        if isinstance(name := found.get("action"), str):
            return _Call(name, json.dumps(found.get("arguments", {})), None)
    return None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    start = text.find("{")
    while start >= 0:
        try:
            found, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        if isinstance(found, dict):
            yield cast("dict[str, Any]", found)
        start = text.find("{", end)


def _act(call: _Call | None, kit: Kit, can: Sequence[Action], seen: int) -> tuple[Observation, bool]:
    """Runs an action; returns its observation and whether it was the final answer."""
    names = ", ".join(action.name for action in can)
    if call is None:
        return Observation(f"Error: the reply holds no action; use one of: {names}"), False
    action = next((action for action in can if action.name == call.name), None)
    if action is None:
        return Observation(f"Error: there is no action {call.name[:60]}; there are: {names}"), False
    if action.name == "view_image" and seen >= kit.limits.images:
        return Observation(f"Error: {seen} pictures have been shown, there are no more"), False
    try:
        arguments = action.arguments.model_validate_json(call.arguments)
        return action.run(kit.desk, arguments), action.name == ANSWER
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()]
        return Observation(f"Error: {'; '.join(faults)[:500]}"), False
    except BadInput as error:
        return Observation(f"Error: {error}"), False


def _step(call: _Call | None, reply: Reply, observation: Observation) -> Step:
    said = call.arguments if call else reply.text
    name = call.name if call else None
    return Step(name, said[:KEPT_CHARACTERS], observation.text[:KEPT_CHARACTERS], len(observation.images))


def _turn(call: _Call | None, reply: Reply, observation: Observation) -> Turn:
    text = observation.text
    if len(text) > OBSERVED_CHARACTERS:
        text = f"{text[:OBSERVED_CHARACTERS]}\n(cut: the observation is longer)"
    told = delimit("observation", text)
    pictures = (Message(role="user", content=("The picture asked for:", *observation.images)),)
    after = pictures if observation.images else ()
    if call is not None and call.id is not None:
        made = ToolCall(id=call.id, name=call.name, arguments=call.arguments)
        asked = Message(role="assistant", content=reply.text, tool_calls=(made,))
        return (asked, Message(role="tool", content=told, tool_call_id=call.id), *after)
    return (Message(role="assistant", content=reply.text), Message(role="user", content=told), *after)
