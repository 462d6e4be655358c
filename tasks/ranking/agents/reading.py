"""Asks for an answer in plain text that must have a form, parses it, and asks once more where that fails."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from schemas.errors import BadInput
from schemas.llm import Message
from tasks.llm.asker import Asker
from tasks.llm.parameters import parameters_of
from tasks.llm.prompt import load_prompt
from tasks.llm.structured import MAX_SHOWN, longer

T = TypeVar("T")


class Parsed(NamedTuple, Generic[T]):
    """The parsed answer, or None with the problem when the reply has no usable content."""

    found: T | None
    problem: str = ""


def ask_and_parse(
    asker: Asker,
    prompt: str,
    values: Mapping[str, Any],
    read: Callable[[str], T],
) -> Parsed[T]:
    """Asks a model and parses its answer; asks once more where the answer cannot be parsed.

    After an answer that was cut off, the second one may be longer.

    Args:
        asker: Asks on behalf of the topic.
        prompt: Id of the prompt file.
        values: One value for each variable of the prompt.
        read: Parses the text of the answer; the message of a BadInput that it raises is shown to the model.

    Raises:
        OverBudget: The cap leaves too little for the call.
        ModelError: No call can succeed.
        TransientError: The endpoint cannot be reached.
    """
    loaded = load_prompt(prompt)
    messages = loaded.render(values)
    parameters = parameters_of(prompt)
    problem = ""
    for turn in range(2):
        reply = asker.converse(messages, prompt=loaded.ref, parameters=parameters)
        if reply.cut:
            parameters = longer(parameters)
            if reply.outcome == "cut" and not turn:
                continue  # the model used its tokens up on reasoning
        if reply.outcome != "ok":
            return Parsed(None, f"{prompt}: {reply.reason}")
        try:
            return Parsed(read(reply.text))
        except BadInput as error:
            problem = str(error)
            faulty = Message(role="assistant", content=reply.text[:MAX_SHOWN])
            messages = (*messages, faulty, *load_prompt("repair_text").render({"problem": problem}))
    return Parsed(None, f"{prompt}: {problem}")
