"""What an endpoint or a model takes, refuses and needs: how requests to it differ from the usual ones."""

import string
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator

from schemas.llm import SENT_BY_FIELDS, ReasoningField
from schemas.settings import Settings

StructuredOutput = Literal["json_schema", "json_object", "prompt"]
"""How an endpoint is told the form of the answer: by a JSON schema, by JSON mode and words, or by words alone."""

TokenField = Literal["max_tokens", "max_completion_tokens"]

Refusable = Literal["temperature", "seed", "top_p", "stop", "top_logprobs"]
"""Parameters that a profile can leave out; `top_logprobs` stands for `logprobs` too."""

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
HeaderValue = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$", max_length=1000)]


class ModelProfile(Settings):
    """How to ask a family of models, or every model of an endpoint.

    Every profile whose patterns fit applies; of two, the later one's fields win. All that changes what the model is
    asked enters the request key: parameters left out, floors, body members, the schema. Headers, the query of the URL
    and the names of fields do not.
    """

    models: tuple[str, ...] = Field(
        default=("*",), description="Patterns of model names, in lower case: `gpt-5*`; `*` is any text."
    )
    endpoints: tuple[str, ...] = Field(
        default=("*",), description="Patterns of the endpoint's name, which is its host unless it was given another."
    )
    refuses: tuple[Refusable, ...] = Field(default=(), description="Parameters that are never sent.")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sent in place of any other temperature; empty: what the task asks for."
    )
    token_field: TokenField = Field(  # the name of a field, no secret
        default="max_tokens", description="Name of the limit on tokens written."
    )
    seed_field: Literal["seed", "random_seed"] = Field(default="seed", description="Name of the seed.")
    least_tokens: int = Field(
        default=1, ge=1, description="Least limit on tokens written, for models whose reasoning counts towards it."
    )
    structured: StructuredOutput = Field(
        default="json_schema", description="How the form of an answer is told: by schema, JSON mode, or words alone."
    )
    schema_refuses: tuple[str, ...] = Field(
        default=(), description="Keywords that are left out of schemas; answers are checked against them all the same."
    )
    strict_only: bool = Field(
        default=False,
        description="Schemas are closed before they are sent: every property required. Other forms are told in words.",
    )
    tools: bool = Field(default=True, description="Whether functions may be offered.")
    images: bool = Field(default=True, description="Whether messages may hold pictures.")
    reasoning_back: ReasoningField | None = Field(
        default=None, description="Where the server wants the reasoning of earlier turns back; empty: nowhere."
    )
    context: int | None = Field(
        default=None, ge=256, description="Tokens read and written together; the limit on tokens written is lowered."
    )
    body: dict[str, JsonValue] = Field(
        default={}, description="Further members of every request: reasoning_effort, chat_template_kwargs, ..."
    )
    headers: dict[HeaderName, HeaderValue] = Field(
        default={}, description="Further HTTP headers; no keys, which belong into the environment."
    )
    query: dict[str, str] = Field(default={}, description="Query of the URL: `api-version`.")
    key_header: HeaderName = Field(
        default="Authorization", description="Header of the API key: as `Bearer KEY` in Authorization, else bare."
    )

    @field_validator("models", "endpoints")
    @classmethod
    def _lower(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(pattern.lower() for pattern in patterns)

    @field_validator("body")
    @classmethod
    def _no_second_way(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted((SENT_BY_FIELDS | {"tools"}) & body.keys()):
            raise ValueError(f"{', '.join(taken)}: set by fields of their own, not through body")
        return body

    @field_validator("headers")
    @classmethod
    def _no_keys(cls, headers: dict[str, str]) -> dict[str, str]:
        reserved = {"authorization", "api-key", "x-api-key", "content-type", "content-length", "host"}
        if taken := sorted(name for name in headers if name.lower() in reserved):
            raise ValueError(f"{', '.join(taken)}: not through headers; API keys come from the environment")
        return headers

    @field_validator("query")
    @classmethod
    def _plain_query(cls, query: dict[str, str]) -> dict[str, str]:
        allowed = set(string.ascii_letters + string.digits + "-_.")
        if any(not text or set(text) - allowed for pair in query.items() for text in pair):
            raise ValueError("names and values of the query are letters, digits, '-', '_' and '.'")
        return query


PLAIN = ModelProfile()
"""A server that takes everything as it is: what keys were made with before there were profiles."""
