"""Puts the events of a streamed reply together: some endpoints stream although nobody asked them to."""

from collections.abc import Iterator
from typing import Any, cast

import orjson


def join_events(raw: bytes) -> dict[str, Any]:
    """Returns the chat completion that server-sent events add up to.

    Args:
        raw: The body, as lines `data: {...}`.

    Raises:
        ValueError: It is no such stream, or it ended before its last event.
    """
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {}
    finish: Any = None
    ended = False
    for event in _events(raw):
        if event is None:
            ended = True
            continue
        whole |= {name: value for name, value in event.items() if name != "choices" and value is not None}
        for choice in event.get("choices") or ():
            if isinstance(choice, dict) and not choice.get("index"):
                told = cast("dict[str, Any]", choice)
                _add(message, told.get("delta") or told.get("message") or {})
                finish = told.get("finish_reason") or finish
    if whole.get("error"):
        return {"error": whole["error"]}
    if not (ended or finish):
        raise ValueError("the streamed reply ended before its last event")
    return whole | {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def _events(raw: bytes) -> Iterator[dict[str, Any] | None]:
    """Yields the JSON object of each event, and None for the mark of the end."""
    for line in raw.splitlines():
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        event = None if data == b"[DONE]" else orjson.loads(data)
        if event is None or isinstance(event, dict):
            yield event


def _add(message: dict[str, Any], delta: Any) -> None:
    if not isinstance(delta, dict):
        return
    for name, value in cast("dict[str, Any]", delta).items():
        if name == "tool_calls":
            _add_calls(message.setdefault("tool_calls", []), value)
        elif isinstance(value, str) and name not in ("role", "id"):
            message[name] = (message.get(name) or "") + value
        elif value is not None or name not in message:
            message[name] = value


def _add_calls(calls: list[dict[str, Any]], deltas: Any) -> None:
    for delta in deltas if isinstance(deltas, list) else ():
        match delta:
            case {"index": int(place), "function": {**function}, **rest}:
                while len(calls) <= place <= len(calls) + 64:
                    calls.append({"function": {}})
                if place < len(calls):
                    calls[place] |= {"id": rest["id"]} if rest.get("id") else {}
                    _add(calls[place]["function"], function)
            case _:
                pass
