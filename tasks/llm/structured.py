"""Structured answers: how they are requested, parsed, and requested again when they do not parse.

An answer must contain exactly one JSON object. A second object, or the start of one that does not parse, is an error to
repair: the parser never chooses, since the last of two objects may be quoted from a hostile paper, and the inner part
of a truncated object may look complete.
"""

import json
import re
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from schemas.llm import AnswerT, Message, Parameters, Request
from schemas.llm_profile import StructuredOutput
from tasks.llm.prompt import Trusted, load_prompt, split_foreign

MAX_SHOWN = 20_000
"""Characters of an invalid answer that the repair turn shows to the model."""

LONGER_WHEN_CUT = 4
"""Factor by which the repair turn raises the token limit of an answer that was cut off."""

_OBJECT = re.compile(r'\{\s*["}]')
_REASONING_END = re.compile(r"</(?:think|thinking|reasoning)>|◁/think▷|<\|channel\|>final<\|message\|>")
_REASONING_START = re.compile(r"<(?:think|thinking|reasoning)>|◁think▷|<\|channel\|>(?:analysis|commentary)")
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Parsed(NamedTuple):
    """A parsed answer, or None with the problem."""

    answer: BaseModel | None
    problem: str = ""


class _Faulty(ValueError):
    """The answer holds no unambiguous JSON object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Faulty(f"the key {key[:100]!r} stands twice in one object")
        found[key] = value
    return found


def _no_constant(name: str) -> float:
    raise _Faulty(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


@cache
def answer_schema(
    answer: type[BaseModel], mode: StructuredOutput, refuses: tuple[str, ...] = (), *, strict_only: bool = False
) -> dict[str, Any]:
    """Returns the form of an answer as it enters the request key.

    `strict` asks the endpoint to enforce the schema while it writes. OpenAI does so only if every object lists all of
    its keys as required and forbids others, so it is set only for such models.

    Args:
        answer: The form.
        mode: How the endpoint is told.
        refuses: Keywords that the endpoint's schemas may not have.
        strict_only: Whether a schema must be strict; one that cannot be is told in words.
    """
    schema = answer.model_json_schema()
    if mode == "json_schema":
        schema = _without(schema, frozenset(refuses))
        if strict_only and not _closed(schema := _close(schema)):
            mode, schema = "prompt", answer.model_json_schema()
    name = _NAME.sub("_", answer.__name__)[:64]
    return {"mode": mode, "name": name, "schema": schema, "strict": _closed(schema)}


def _without(schema: Any, keywords: frozenset[str]) -> Any:
    """Returns a schema without certain keywords; properties may have their names."""
    match schema:
        case dict():
            return {
                name: {key: _without(inner, keywords) for key, inner in part.items()}
                if name in ("properties", "$defs")
                else _without(part, keywords)
                for name, part in schema.items()
                if name not in keywords
            }
        case list():
            return [_without(part, keywords) for part in schema]
        case _:
            return schema


def _close(schema: Any) -> Any:
    """Returns a schema whose objects require all of their properties, and forbid others where they name any."""
    match schema:
        case {"properties": {**properties}, **rest}:
            inner = {name: _close(_without(part, frozenset({"default"}))) for name, part in properties.items()}
            closed = {name: _close(part) for name, part in rest.items()}
            return {"additionalProperties": False} | closed | {"properties": inner, "required": list(properties)}
        case dict():
            return {name: _close(part) for name, part in schema.items()}
        case list():
            return [_close(part) for part in schema]
        case _:
            return schema


def _closed(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_closed(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        required = set(schema.get("required", ()))
        if schema.get("additionalProperties") is not False or required != set(schema.get("properties", {})):
            return False
    return all(_closed(item) for item in schema.values())


def response_format(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the endpoint's setting for a form, or None if the endpoint has none."""
    if schema["mode"] == "json_schema":
        return {"type": "json_schema", "json_schema": {name: schema[name] for name in ("name", "schema", "strict")}}
    return {"type": "json_object"} if schema["mode"] == "json_object" else None


def with_form(request: Request[AnswerT], schema: dict[str, Any]) -> Request[AnswerT]:
    """Returns the request with the form described in the prompt, unless a setting of the endpoint carries it."""
    if schema["mode"] == "json_schema":
        return request
    (words,) = load_prompt("answer_form").render({"schema": Trusted(json.dumps(schema["schema"], ensure_ascii=False))})
    *before, last = request.messages
    if isinstance(last.content, str):
        content = f"{last.content}\n\n{words.content}"
    else:
        content = (*last.content, str(words.content))
    return request.model_copy(update={"messages": (*before, Message(role=last.role, content=content))})


def repair_request(request: Request[AnswerT], text: str, problem: str, *, cut: bool = False) -> Request[AnswerT]:
    """Returns the repair turn: the invalid answer, its problem, and the request to answer again.

    Args:
        request: The question.
        text: The invalid answer.
        problem: What is wrong with it.
        cut: Whether it stopped at the token limit; the second answer may then be longer.
    """
    assert request.answer is not None
    schema = Trusted(json.dumps(request.answer.model_json_schema(), ensure_ascii=False))
    turn = load_prompt("repair").render({"problem": problem, "schema": schema})
    faulty = Message(role="assistant", content=text[:MAX_SHOWN] or "(empty)")
    changes: dict[str, Any] = {"messages": (*request.messages, faulty, *turn)}
    if cut:
        changes["parameters"] = longer(request.parameters)
    return request.model_copy(update=changes)


def longer(parameters: Parameters) -> Parameters:
    """Returns parameters with which an answer that was cut off is asked for again."""
    return parameters.model_copy(update={"max_tokens": parameters.max_tokens * LONGER_WHEN_CUT})


def without_reasoning(text: str) -> str:
    """Returns the text after the last end-of-reasoning tag; empty if reasoning began and did not end."""
    if "<" not in text and "◁" not in text:
        return text.strip()
    cut = 0
    for end in _REASONING_END.finditer(text):
        cut = end.end()
    rest = text[cut:]
    begun = _REASONING_START.search(rest)
    return (rest[: begun.start()] if begun else rest).strip()


def has_text(text: str) -> bool:
    """Returns whether a reply holds more than blanks and reasoning."""
    return text.lstrip().startswith("{") or bool(without_reasoning(text))


def read_answer(text: str, answer: type[BaseModel], shown: str = "", own: str = "") -> Parsed:
    """Parses the one JSON object of an answer and validates it.

    Args:
        text: What the model wrote.
        answer: The expected form; duplicate keys and NaN are always refused.
        shown: Text that the model was shown. An object inside prose that others wrote there is a quotation, not an
            answer; an answer that consists of the object (or one code fence) alone may equal it.
        own: The prompt's own text, whose examples are no foreign text unless they stand between delimiters.
    """
    try:
        found = _find(text, shown, own)
        return Parsed(answer.model_validate_json(found))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'the object'}: {e['msg']}" for e in error.errors()]
        return Parsed(None, "; ".join(faults)[:1000])
    except (ValueError, RecursionError) as error:
        return Parsed(None, str(error)[:1000])


def _find(text: str, shown: str, own: str) -> str:
    whole = text.strip()
    if not whole:
        raise _Faulty("the answer is empty")
    if whole.startswith("{") and _ends_at(whole, 0) == len(whole):
        return whole
    rest = without_reasoning(whole)
    if not rest:
        raise _Faulty("the answer holds reasoning alone")
    alone = _unfenced(rest)
    start = _OBJECT.search(alone)
    if start is None:
        raise _Faulty("there is no JSON object in the answer")
    end = _ends_at(alone, start.start())
    if _OBJECT.search(alone, end):
        raise _Faulty("there is more than one JSON object in the answer")
    found = alone[start.start() : end]
    if len(found) < len(alone) and _is_quoted(_squeezed(found), shown, own):
        raise _Faulty("the JSON object in the answer is a quotation of what you were shown")
    return found


def _is_quoted(found: str, shown: str, own: str) -> bool:
    foreign, around = split_foreign(shown)
    return found in _squeezed(foreign) or (found in _squeezed(around) and found not in _squeezed(own))


def _unfenced(text: str) -> str:
    """Returns the content of a code fence if the text is nothing else."""
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    language, _, inside = text[3:-3].partition("\n")
    return inside.strip() if language.strip().isalnum() or not language.strip() else text


def _ends_at(text: str, start: int) -> int:
    try:
        return _DECODER.raw_decode(text, start)[1]
    except json.JSONDecodeError as error:
        raise _Faulty(f"the JSON is not valid: {error}") from None


def _squeezed(text: str) -> str:
    return "".join(text.split())
