"""Requests and replies in the form of OpenAI's chat completions, for agents from outside that ask through the door."""

import base64
import binascii
import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from schemas.errors import BadInput
from schemas.llm import Image, Message, Parameters, Reply, Request, Tool, ToolCall
from tasks.llm.forms import form_of
from tasks.llm.images import MAX_BYTES as MOST_IMAGE

PASSED_ON = ("frequency_penalty", "presence_penalty", "reasoning_effort", "parallel_tool_calls", "tool_choice")
"""Members of a request that the endpoint gets as they are."""


class _Part(BaseModel):
    """What chat completions are made of; members that are not named are refused."""

    model_config = ConfigDict(extra="forbid")


class FunctionCall(_Part):
    """The function of a tool call."""

    name: str
    arguments: str


class Call(_Part):
    """A call that a model wrote in an earlier turn."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class ImageUrl(_Part):
    """A picture as a data URL."""

    url: str
    detail: str | None = None


class Content(_Part):
    """A text or a picture."""

    type: Literal["text", "image_url"]
    text: str | None = None
    image_url: ImageUrl | None = None


class Turn(_Part):
    """A message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Content] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class Function(_Part):
    """A function that the model may call."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default={"type": "object", "properties": {}})
    strict: bool | None = None


class FunctionTool(_Part):
    """A tool."""

    type: Literal["function"] = "function"
    function: Function


class ChatRequest(_Part):
    """A request of chat completions. What is left out is the door's own: temperature 0 and seed 42."""

    model: str = Field(min_length=1, max_length=200, description="Model by the endpoint's name; `default`: the run's.")
    messages: list[Turn] = Field(min_length=1)
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = 42
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None
    n: Literal[1] = 1
    stream: Literal[False] = False
    user: str | None = None
    tools: list[FunctionTool] = Field(default=[])
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, JsonValue] | None = None

    def read(self, stage: str, model: str) -> Request[BaseModel]:
        """Returns the request as the door takes it.

        Args:
            stage: Who pays.
            model: The model that is asked.

        Raises:
            BadInput: A picture or the form of the answer cannot be used.
        """
        limit = self.max_completion_tokens or self.max_tokens
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        extra: dict[str, JsonValue] = {name: value for name in PASSED_ON if (value := getattr(self, name)) is not None}
        return Request[BaseModel](
            messages=tuple(map(_message, self.messages)),
            stage=stage,
            answer=_form(self.response_format),
            parameters=Parameters(
                temperature=self.temperature,
                seed=self.seed,
                top_p=self.top_p,
                stop=tuple(stop[:4]),
                extra=extra,
                **({"max_tokens": limit} if limit else {"max_tokens": 4096}),
            ),
            model=model,
            tools=tuple(
                Tool(name=asked.name, description=asked.description, parameters=asked.parameters)
                for asked in (tool.function for tool in self.tools)
            ),
        )


def completion_of(reply: Reply[Any]) -> dict[str, Any]:
    """Returns a reply as a chat completion; `arena` says where it came from and what it cost."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]
    ended = {"cut": "length", "refused": "content_filter"}.get(reply.outcome, "tool_calls" if calls else "stop")
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    tokens = reply.usage.tokens
    return {
        "id": f"chatcmpl-{reply.keys[-1][:24] if reply.keys else 'none'}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": ended, "logprobs": None}],
        "usage": {"prompt_tokens": tokens.input, "completion_tokens": tokens.output, "total_tokens": tokens.total},
        "arena": {"source": reply.source, "usd": reply.usage.usd, "outcome": reply.outcome},
    }


def _message(turn: Turn) -> Message:
    role = "system" if turn.role == "developer" else turn.role
    calls = tuple(
        ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in turn.tool_calls or ()
    )
    content: str | tuple[str | Image, ...] = turn.content if isinstance(turn.content, str) else ""
    if isinstance(turn.content, list):
        content = tuple(map(_content, turn.content))
        if all(isinstance(piece, str) for piece in content):
            content = "".join(map(str, content))
    return Message(role=role, content=content, tool_calls=calls, tool_call_id=turn.tool_call_id)


def _content(part: Content) -> str | Image:
    if part.type == "text":
        return part.text or ""
    head, _, data = (part.image_url.url if part.image_url else "").partition(";base64,")
    media = head.removeprefix("data:")
    try:
        picture = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput("messages: a picture must be a data URL in base64") from error
    if media not in ("image/png", "image/jpeg", "image/gif", "image/webp") or not 0 < len(picture) <= MOST_IMAGE:
        raise BadInput("messages: a picture must be a data URL of a PNG, JPEG, GIF or WebP file")
    return Image(media_type=media, data=picture)


def _form(told: dict[str, JsonValue] | None) -> type[BaseModel] | None:
    match told:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return form_of("object", {"type": "object"})
        case {"type": "json_schema", "json_schema": {"name": str(name), "schema": {**schema}}}:
            return form_of(name, schema)
        case _:
            raise BadInput("response_format: expected text, json_object, or json_schema with name and schema")
