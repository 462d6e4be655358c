"""The request key: what makes two calls identical, and which part differs if they are not."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from schemas.errors import BadInput
from schemas.llm import Image, Message, Request

PARTS = ("provider", "model", "messages", "parameters", "schema", "prompt", "attempt", "tools", "salt")
"""Everything that a key depends on. A picture enters by its digest; the stage that pays does not enter."""

EXCERPT = 60
"""Characters shown of each side of a difference."""


class RequestKey(NamedTuple):
    """A call's key, and the canonical JSON that it is the sha256 of."""

    key: str
    parts: bytes


class Difference(NamedTuple):
    """One part in which a stored call differs from the requested one; texts start near the first difference."""

    part: str
    stored: str
    asked: str


class Miss(NamedTuple):
    """Why a call was not found.

    `nearest` is the stored call that shares the most parts (None: nothing is stored) and `differences` are the parts
    that it does not share. If the call itself is stored, `note` describes its state.
    """

    key: str
    nearest: str | None
    differences: tuple[Difference, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """Returns one line for an error message."""
        if self.note:
            return f"request {self.key[:12]}: {self.note}"
        if self.nearest is None:
            return f"request {self.key[:12]}: nothing is stored yet"
        told = "; ".join(f"{d.part}: stored {d.stored!r}, asked {d.asked!r}" for d in self.differences)
        return f"request {self.key[:12]} differs from its nearest, {self.nearest[:12]}, in {told}"


def request_key(
    provider: str, model: str, request: Request[Any], schema: Mapping[str, Any] | None, salt: str = ""
) -> RequestKey:
    """Returns the key of a request.

    Args:
        provider: Name of the endpoint.
        model: Model by the endpoint's name; stands for a missing `request.model`.
        request: The question.
        schema: Form of the answer as the endpoint is told it; None for plain text.
        salt: Sets calls apart that are equal otherwise; empty: not part of the key.

    Raises:
        BadInput: A text is not valid Unicode.
    """
    parts = {
        "provider": provider,
        "model": request.model or model,
        "messages": [_canonical(message) for message in request.messages],
        "parameters": request.parameters.model_dump(mode="json", exclude_none=True),
        "schema": schema,
        "prompt": request.prompt and request.prompt._asdict(),
        "attempt": request.attempt,
    }
    if request.tools:  # a request without tools keeps the key that it had before tools were added
        parts["tools"] = [tool.model_dump() for tool in request.tools]
    if salt:
        parts["salt"] = salt
    try:
        canonical = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise BadInput(
            f"a message of stage {request.stage!r} cannot be sent ({error}); clean its text before"
        ) from error
    return RequestKey(hashlib.sha256(canonical).hexdigest(), canonical)


def _canonical(message: Message) -> dict[str, Any]:
    calls: dict[str, Any] = {}
    if message.tool_calls:
        calls["tool_calls"] = [call.model_dump() for call in message.tool_calls]
    if message.tool_call_id is not None:
        calls["tool_call_id"] = message.tool_call_id
    if message.reasoning:
        calls["reasoning"] = message.reasoning
    if isinstance(message.content, str):
        return {"role": message.role, "content": message.content, **calls}
    pieces = [
        {"image": piece.sha256, "type": piece.media_type} if isinstance(piece, Image) else piece
        for piece in message.content
    ]
    return {"role": message.role, "content": pieces, **calls}


def explain(asked: RequestKey, stored: Iterable[tuple[str, bytes]]) -> Miss:
    """Finds the stored call that is nearest to the requested one and lists the differences.

    Args:
        asked: The call that was not found.
        stored: Key and canonical JSON of the calls to compare with; all are read.
    """
    wanted = _texts(asked.parts)
    best: tuple[tuple[int, int], str, dict[str, str]] | None = None
    for key, parts in stored:
        candidate = _texts(parts)
        equal = sum(candidate[part] == wanted[part] for part in PARTS)
        rank = (equal, _common(candidate["messages"], wanted["messages"]))
        if best is None or rank > best[0]:
            best = (rank, key, candidate)
    if best is None:
        return Miss(asked.key, None)
    differing = [part for part in PARTS if best[2][part] != wanted[part]]
    return Miss(asked.key, best[1], tuple(_difference(part, best[2][part], wanted[part]) for part in differing))


def _texts(parts: bytes) -> dict[str, str]:
    loaded = orjson.loads(parts)
    return {part: orjson.dumps(loaded.get(part), option=orjson.OPT_SORT_KEYS).decode() for part in PARTS}


def _common(a: str, b: str) -> int:
    """Returns the length of the common prefix, by bisection because texts may be long and many."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _difference(part: str, stored: str, asked: str) -> Difference:
    start = max(0, _common(stored, asked) - EXCERPT // 3)
    return Difference(part, *(_excerpt(text, start) for text in (stored, asked)))


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + EXCERPT]
    return ("…" if start else "") + shown + ("…" if start + EXCERPT < len(text) else "")
