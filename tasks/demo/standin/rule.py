"""What the stand-in is asked and how a rule answers it, and the registry of rules."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, JsonValue

from schemas.registry import Registry


class ToolCall(NamedTuple):
    """An answer that calls one of the tools that the request offers."""

    name: str
    arguments: Mapping[str, JsonValue]


class Turn(NamedTuple):
    """One message of the conversation: who said it, and its text."""

    role: str
    text: str


class Asked(NamedTuple):
    """A question as a rule sees it.

    Attributes:
        prompt: Id of the prompt file that the question was made from.
        text: The last message, whole.
        texts: Foreign texts of the conversation by the name they were delimited with, in order; empty ones are not
            there. Those that the model itself wrote are not among them.
        images: Pictures in order, as bytes.
        messages: The conversation, oldest first.
        tools: Names of the tools that may be called.
    """

    prompt: str
    text: str
    texts: Mapping[str, Sequence[str]]
    images: Sequence[bytes] = ()
    messages: Sequence[Turn] = ()
    tools: Sequence[str] = ()

    def all(self, name: str) -> Sequence[str]:
        """The foreign texts of that name."""
        return self.texts.get(name, ())

    def first(self, name: str) -> str:
        """The first foreign text of that name; empty where there is none."""
        return next(iter(self.all(name)), "")


Rule = Callable[[Asked], BaseModel | str | ToolCall]
"""Answers a question by its words alone: no clock, no chance, no state, so that equal questions get equal answers."""

_registry = Registry[Rule]("rule of the stand-in", "tasks.demo.standin.rules")


def answers(prompt: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule for a prompt.

    Args:
        prompt: Id of the prompt file.

    Raises:
        ValueError: The prompt has another rule.
    """
    return lambda rule: _registry.add(prompt, rule)


def all_rules() -> dict[str, Rule]:
    """Every rule by the id of its prompt."""
    return _registry.all()
