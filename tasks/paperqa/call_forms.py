"""Reads the action that a reply asks for: a function call, or one of the forms in which models write calls as text."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError

from schemas.llm import Reply

MOST_ENCODINGS = 3
"""How many times arguments may be wrapped in a JSON string."""

_NAMES, _ARGUMENTS = ("action", "name"), ("arguments", "parameters", "action_input")
"""Members of a call: the project's own form, and those of Hermes, Llama and ReAct prompts."""

_FUNCTION = re.compile(r"<function=(?P<name>[^>\s]+)>(?P<body>.*?)(?:</function>|</tool_call>|\Z)", re.S)
_PARAMETER = re.compile(r"<parameter=(?P<name>[^>\s]+)>\n?(?P<value>.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.S)
_ATTEMPT = re.compile(r'<tool_call>|<function=|\[TOOL_CALLS\]|"(?:action|name|arguments|parameters)"\s*:')
_FINAL = re.compile(r"^\W*(?:the )?final answer\W*(?::|\bis\b)\W*(?P<answer>\S.*)", re.I | re.M | re.S)
_DECODER = json.JSONDecoder()

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)


class Call(NamedTuple):
    """An action requested by a reply; `arguments` is JSON, and `id` is set if it was a function call."""

    name: str
    arguments: str
    id: str | None = None


def read_call(reply: Reply) -> Call | None:
    """Returns the first function call of a reply, or else the first call in its text; None if it holds none.

    Read in text: `{"action": ..., "arguments": ...}`; Hermes' `<tool_call>{"name": ..., "arguments": ...}</tool_call>`,
    with or without its tags; and Qwen's `<function=name><parameter=...>`. Arguments may be JSON inside a JSON string.
    """
    for call in reply.tool_calls:
        return Call(call.name.removeprefix("functions."), _decoded(call.arguments), call.id)
    if function := _FUNCTION.search(reply.text):
        given = {found["name"]: found["value"] for found in _PARAMETER.finditer(function["body"])}
        return Call(function["name"], json.dumps(given) if given else _decoded(function["body"].strip() or "{}"))
    for found in _objects(reply.text):
        if call := _call_of(found):
            return call
    return None


def is_attempt(text: str) -> bool:
    """Returns whether a text without a readable call tries to make one."""
    return _ATTEMPT.search(text) is not None


def final_answer(text: str) -> str | None:
    """Returns what follows "Final answer:" in a reply in plain words; None if it says no such thing."""
    found = _FINAL.search(text)
    return found["answer"].strip() if found else None


def read_arguments(form: type[ArgumentsT], arguments: str) -> ArgumentsT:
    """Validates the arguments of a call; a member of the wrong type may be JSON inside a string.

    Raises:
        ValidationError: They do not have the form.
    """
    try:
        return form.model_validate_json(arguments)
    except ValidationError as error:
        faulty = {place["loc"][0] for place in error.errors() if place["loc"]}
        try:
            given = json.loads(arguments)
            opened = {name: json.loads(_decoded(value)) for name, value in given.items() if name in faulty}
        except (ValueError, TypeError, AttributeError):
            raise error from None
        return form.model_validate(given | opened)


def _call_of(found: dict[str, Any]) -> Call | None:
    match found:
        case {"function": {**inner}} | {"tool_calls": [{"function": {**inner}}, *_]} | {"tool_calls": [{**inner}, *_]}:
            return _call_of(inner)
        case _:
            pass
    name = next((found[name] for name in _NAMES if isinstance(found.get(name), str)), None)
    given = next((found[name] for name in _ARGUMENTS if name in found), {} if "action" in found else None)
    if name is None or given is None:
        return None
    return Call(name, _decoded(given if isinstance(given, str) else json.dumps(given)))


def _decoded(arguments: str) -> str:
    """Returns JSON text without the JSON strings that it is wrapped in."""
    for _ in range(MOST_ENCODINGS):
        try:
            inner = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        if not isinstance(inner, str):
            return arguments
        arguments = inner
    return arguments


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
