"""Answers in plain text that must have a form: reading them, and asking once more."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from schemas.errors import BadInput
from schemas.llm import Message, Parameters
from tasks.llm.asker import DETERMINISTIC, Asker
from tasks.llm.prompt import load_prompt
from tasks.llm.structured import MAX_SHOWN

T = TypeVar("T")


class Read(NamedTuple, Generic[T]):
    """What was read of an answer; None with the problem where there is nothing to read."""

    found: T | None
    problem: str = ""


def ask_for(
    asker: Asker,
    prompt: str,
    values: Mapping[str, Any],
    read: Callable[[str], T],
    parameters: Parameters = DETERMINISTIC,
) -> Read[T]:
    """Asks, reads the answer, and asks once more where it cannot be read.

    Args:
        asker: Who asks.
        prompt: Id of the prompt file.
        values: What it is filled with.
        read: Makes of the answer's text what is wanted; raises BadInput, which the model is then shown.
        parameters: How the model is asked to write.

    Raises:
        OverBudget: The cap leaves too little for the call.
        ModelError: No call can succeed.
        TransientError: The endpoint cannot be reached.
    """
    loaded = load_prompt(prompt)
    messages = loaded.render(values)
    problem = ""
    for _ in range(2):
        reply = asker.converse(messages, prompt=loaded.ref, parameters=parameters)
        if reply.outcome != "ok":
            return Read(None, f"{prompt}: {reply.reason}")
        try:
            return Read(read(reply.text))
        except BadInput as error:
            problem = str(error)
            faulty = Message(role="assistant", content=reply.text[:MAX_SHOWN])
            messages = (*messages, faulty, *load_prompt("repair_text").render({"problem": problem}))
    return Read(None, f"{prompt}: {problem}")
