"""The agent loop: act, observe, repeat, until the agent answers or reaches a limit."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.llm import UNANSWERED, Demand, Parameters, Reply
from schemas.paperqa import AnswerOutcome, Question
from tasks.llm.prompt import Prompt, Trusted, load_prompt
from tasks.paperqa.actions import ANSWER, Action, Observation, show_part
from tasks.paperqa.baseline import Answered, Kit, Step
from tasks.paperqa.call_forms import Call, final_answer, is_attempt, read_arguments, read_call
from tasks.paperqa.conversation import Conversation

KEPT_CHARACTERS = 4000
"""Characters of an observation that the trajectory stores."""

DEMAND = Demand(calls=5, read=10_000, written=600)
"""Five turns, for estimates: 700 tokens of instructions in each, and the results so far of some 650 tokens each."""

IN_WORDS = "the agent answered in plain words instead of by an action"


def run_agent(question: Question, kit: Kit, can: Sequence[Action]) -> Answered:
    """Lets a model act until it answers.

    Args:
        question: The question.
        kit: Desk, model, limits, and whether actions are function calls.
        can: The available actions, including the final answer.

    Returns:
        The answer, or the outcome `turn_limit`, `token_limit`, `cost_limit`, `refused` or `failed` without an answer.

    Source: NeuSym-RAG's ReAct loop: a malformed action gives an error as its observation and uses up the turn.

    Deviates: an agent that reaches a limit has no answer; upstream uses its last observation as the answer. A reply in
        plain words is the answer when it says so ("Final answer: ..."), or when it is the last one or follows another:
        the first of them is answered by a reminder.
    """
    prompt = load_prompt("airqa_agent")
    talk = Conversation(prompt.render(_values(question, kit, can)), kit.limits)
    steps: list[Step] = []
    reminded = False
    for turn in range(1, kit.limits.turns + 1):
        if reached := _limit_reached(kit):
            return Answered(None, *reached, tuple(steps))
        reply = _ask(talk, kit, prompt, can)
        if reply.outcome != "ok":
            ended: AnswerOutcome = UNANSWERED[reply.outcome]
            return Answered(None, ended, reply.reason, tuple(steps))
        call = read_call(reply)
        in_words = call is None and not is_attempt(reply.text)
        if in_words and (words := _answer_in_words(reply.text, insist=reminded or turn == kit.limits.turns)):
            return Answered(words, note=IN_WORDS, steps=(*steps, Step(ANSWER, words[:KEPT_CHARACTERS], "")))
        reminded = in_words
        observation, done = _act(call, kit, can, sum(step.images for step in steps))
        steps.append(_step(call, reply, observation))
        if done:
            return Answered(observation.text, steps=tuple(steps))
        talk.add(call, reply, observation)
    return Answered(None, "turn_limit", f"no answer in {kit.limits.turns} turns", tuple(steps))


def _ask(talk: Conversation, kit: Kit, prompt: Prompt, can: Sequence[Action]) -> Reply:
    """Sends the conversation; where it is too long for the model, again without its old turns."""
    tools = tuple(action.tool for action in can) if kit.protocol == "functions" else ()
    parameters = Parameters(max_tokens=kit.limits.written_tokens)
    while True:
        reply = kit.asker.converse(talk.messages(), prompt=prompt.ref, parameters=parameters, tools=tools)
        if reply.outcome != "too_long" or not talk.shorten():
            return reply


def _answer_in_words(text: str, *, insist: bool) -> str | None:
    """Returns the answer in a reply without an action; only a reply that says it is final has one, unless `insist`."""
    return final_answer(text) or (text.strip() if insist else None)


def _values(question: Question, kit: Kit, can: Sequence[Action]) -> dict[str, Any]:
    return {
        "question": question.question,
        "answer_format": question.answer_format,
        "papers": [card.paper_id for card in kit.desk.anchors],
        "conferences": list(question.conference),
        "actions": Trusted("\n".join(_describe(action) for action in can)),
        "as_text": kit.protocol == "text",
        "turns": kit.limits.turns,
        "characters": kit.limits.observed_characters,
        "whole_library": kit.desk.scope_name == "library",
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


def _act(call: Call | None, kit: Kit, can: Sequence[Action], seen: int) -> tuple[Observation, bool]:
    """Runs an action; returns the part of its observation that is shown, and whether it was the final answer."""
    names = ", ".join(action.name for action in can)
    if call is None:
        told = f"Error: the reply holds no action; use one of: {names}. The answer too is given by an action, {ANSWER}."
        return Observation(told), False
    action = next((action for action in can if action.name == call.name), None)
    if action is None:
        return Observation(f"Error: there is no action {call.name[:60]}; there are: {names}"), False
    if action.name == "view_image" and seen >= kit.limits.images:
        return Observation(f"Error: {seen} pictures have been shown, there are no more"), False
    try:
        arguments = read_arguments(action.arguments, call.arguments)
        found = action.run(kit.desk, arguments)
        if action.name == ANSWER:
            return found, True
        part = getattr(arguments, "part", 1)
        return found._replace(text=show_part(found.text, part, kit.limits.observed_characters)), False
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()]
        return Observation(f"Error: {'; '.join(faults)[:500]}"), False
    except BadInput as error:
        return Observation(f"Error: {error}"), False


def _step(call: Call | None, reply: Reply, observation: Observation) -> Step:
    said = call.arguments if call else reply.text
    name = call.name if call else None
    return Step(name, said[:KEPT_CHARACTERS], observation.text[:KEPT_CHARACTERS], len(observation.images))
