"""The OpenAI chat-completions format: builds request bodies and reads replies."""

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple, cast, get_args

import orjson

from schemas.llm import Image, Message, ReasoningField, Request, Tokens, Tool, ToolCall
from schemas.llm_profile import ModelProfile
from tasks.llm.stream import join_events

STREAM_STARTS = (b"data:", b"event:", b":", b"id:")
"""How a body begins that is a stream of events."""

MAX_TOKENS_REPORTED = 2**40
"""Larger token counts are ignored as wrong."""

CUT = frozenset({"length", "model_length", "max_tokens"})
"""Reasons, in lower case, with which an answer ends at a limit on tokens (`model_length`: Mistral)."""

DECLINED = frozenset(
    {
        *("content_filter", "content_filtered", "safety", "prohibited_content", "recitation", "blocklist"),
        *("refusal", "sensitive"),
    }
)
"""Reasons with which a filter or the model declines. Gemini writes the kind of filter behind a colon."""

BROKEN = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
"""Reasons with which a server breaks an answer off: OpenRouter and Mistral, vLLM and SGLang, DeepSeek, GLM."""

_REASONING = get_args(ReasoningField)

_STATUS_OF_KIND: Mapping[str, int] = {
    "authentication_error": 401,
    "insufficient_quota": 402,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded": 529,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "unavailable": 503,
}


class Completion(NamedTuple):
    """The parsed reply.

    `problem` says why the reply is unusable (empty if it is usable), `refused` whether the model or its provider
    declined, `passing` whether the same request may succeed, `cut` whether the text stopped at the token limit;
    `tokens` is None if the endpoint did not report usage. `model` and `fingerprint` are what the endpoint says has
    answered. `error` is an error that came in place of an answer, as JSON, and `status` the HTTP status that it names
    (0: none).
    """

    text: str = ""
    problem: str = ""
    refused: bool = False
    passing: bool = False
    cut: bool = False
    tokens: Tokens | None = None
    model: str = ""
    fingerprint: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    error: bytes = b""
    status: int = 0
    reasoning: Mapping[str, Any] = {}


def request_body(
    model: str, profile: ModelProfile, request: Request[Any], response_format: Mapping[str, Any] | None
) -> bytes:
    """Returns the JSON body of a request to a model, with the names that its profile gives to fields."""
    parameters = request.parameters
    body: dict[str, Any] = {
        **parameters.extra,
        "model": model,
        "messages": [_message(message) for message in request.messages],
        profile.token_field: parameters.max_tokens,
    }
    optional = {
        "temperature": parameters.temperature,
        profile.seed_field: parameters.seed,
        "top_p": parameters.top_p,
        "stop": parameters.stop or None,
        "logprobs": True if parameters.top_logprobs is not None else None,
        "top_logprobs": parameters.top_logprobs,
        "response_format": response_format,
        "tools": [_tool(tool) for tool in request.tools] or None,
    }
    body.update((name, value) for name, value in optional.items() if value is not None)
    return orjson.dumps(body)


def _tool(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump()}


def _message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        told["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    told |= message.reasoning
    if message.tool_call_id is not None:
        told["tool_call_id"] = message.tool_call_id
    return told


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [_piece(piece) for piece in message.content]


def _piece(piece: str | Image) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    url = f"data:{piece.media_type};base64,{base64.b64encode(piece.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def read_completion(raw: bytes) -> Completion:
    """Parses a chat completion; anything missing or mistyped becomes a `problem`, never an exception."""
    try:
        reply = join_events(raw) if raw.lstrip().startswith(STREAM_STARTS) else orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return Completion(problem=f"the reply is not JSON ({error})")
    except ValueError as error:
        return Completion(problem=str(error), passing=True)
    if not isinstance(reply, dict):
        return Completion(problem="the reply is not a JSON object")
    told = cast("dict[str, Any]", reply)
    if told.get("error") and not told.get("choices"):
        return _error("the endpoint reports an error", told["error"])
    return _read_choice(
        told.get("choices"),
        tokens=_tokens(told.get("usage")),
        model=str(told.get("model") or ""),
        fingerprint=str(told.get("system_fingerprint") or ""),
    )


def _read_choice(choices: Any, **told: Any) -> Completion:
    """Returns the completion of a reply's choices; `told` is what stands beside them."""
    match choices:
        case [{"message": {**message}, **choice}, *_]:
            pass
        case _:
            return Completion(problem="the reply has no choices", **told)
    told["reasoning"] = {name: message[name] for name in _REASONING if message.get(name)}
    reason = str(choice.get("finish_reason") or "").lower()
    if (refusal := message.get("refusal")) and isinstance(refusal, str):
        return Completion(problem=f"the model refused: {refusal[:200]}", refused=True, **told)
    if reason.partition(":")[0] in DECLINED:
        problem = f"the provider's content filter stopped the answer ({reason})"
        return Completion(problem=problem, refused=True, **told)
    if reason in BROKEN:
        error = _error(f"the endpoint broke off the answer (finish_reason {reason})", choice.get("error"))
        return error._replace(passing=True, **told)
    return _read_message(message, cut=reason in CUT, **told)


def _read_message(message: Mapping[str, Any], **told: Any) -> Completion:
    calls = message.get("tool_calls") or (
        [{"function": message["function_call"]}] if message.get("function_call") else []
    )
    match message.get("content"):
        case str() | None as text:
            pass
        case [{"type": _}, *_] as pieces:
            text = "".join(piece["text"] for piece in pieces if _is_text(piece))  # others are what the model thought
        case _ if calls:
            text = ""
        case _:
            return Completion(problem="the answer is not text", **told)
    return Completion(text or "", tool_calls=_tool_calls(calls) if isinstance(calls, list) else (), **told)


def _error(what: str, told: Any) -> Completion:
    """Returns the completion of an error that stands where an answer should: OpenRouter sends those with status 200."""
    said = " ".join(str(told or "no reason given").split())[:200]
    return Completion(problem=f"{what}: {said}", error=orjson.dumps({"error": told}), status=_status_of(told))


def _status_of(told: Any) -> int:
    if not isinstance(told, dict):
        return 0
    for name in ("code", "status", "type", "error_type"):
        match cast("dict[str, Any]", told).get(name):
            case int(status) if 400 <= status < 600:
                return status
            case str(kind) if kind.isdecimal() and 400 <= int(kind) < 600:
                return int(kind)
            case str(kind) if kind.lower() in _STATUS_OF_KIND:
                return _STATUS_OF_KIND[kind.lower()]
            case _:
                pass
    return 0


def _is_text(piece: Any) -> bool:
    return isinstance(piece, dict) and piece.get("type") == "text" and isinstance(piece.get("text"), str)


def _tool_calls(calls: list[Any]) -> tuple[ToolCall, ...]:
    """Returns the tool calls that have a name. Some endpoints give no id, or give arguments as an object."""
    found: list[ToolCall] = []
    for place, call in enumerate(calls):
        match call:
            case {"function": {"name": str(name), **function}, **rest}:
                arguments = function.get("arguments")
                text = arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
                found.append(ToolCall(id=str(rest.get("id") or f"call_{place}"), name=name, arguments=text))
            case _:
                pass
    return tuple(found)


def _tokens(usage: Any) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    told = cast("dict[str, Any]", usage)
    read, written, total = (_count(told.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if read is None or written is None:
        return None
    return Tokens(read, max(written, (total or 0) - read))  # some endpoints count reasoning only in the total


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS_REPORTED else None
