"""A question to a language model, and what came back."""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Generic, Literal, NamedTuple

from pydantic import BaseModel, Field, JsonValue, field_validator
from typing_extensions import TypeVar

from schemas.settings import Settings

CallOutcome = Literal["ok", "failed", "refused", "over_budget", "empty", "cut", "invalid", "too_long"]
"""How a call ended. `ok` is the only one with an answer; the others carry a reason and never count as a zero.

`empty`: the reply has no text; `cut`: it stopped at the token limit; `invalid`: it does not have the form asked for;
`too_long`: the conversation does not fit into the model's context.
"""

Unanswered = Literal["failed", "refused", "over_budget"]

UNANSWERED: Mapping[CallOutcome, Unanswered] = {
    "failed": "failed",
    "refused": "refused",
    "over_budget": "over_budget",
    "empty": "failed",
    "cut": "failed",
    "invalid": "failed",
    "too_long": "failed",
}
"""The outcome of a topic, query, question or paper that a call left without an answer."""

ReplySource = Literal["replay", "cache", "provider", "budget"]
"""Where a reply came from; `budget` when the call was not made because of the cap."""

ReasoningField = Literal["reasoning_content", "reasoning", "reasoning_details"]
"""Members of a message in which endpoints put the model's reasoning."""

ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]

STAND_IN = "stand-in"
"""Provider and model of what answers by rule in a model's place: a name that no language model has."""

AnswerT = TypeVar("AnswerT", bound=BaseModel, default=BaseModel)


class ModelName(Settings):
    """Which model made a result: part of the settings, hence of the key, of every stage that asks one."""

    provider: str = Field(min_length=1, description="Name of the endpoint, as in request keys.")
    model: str = Field(min_length=1, description="Model by the endpoint's name.")

    @property
    def short(self) -> str:
        """The model in the name of a run: `gpt-4o-mini`, `stand-in`."""
        return re.sub(r"[^a-z0-9.]+", "-", self.model.rpartition("/")[2].lower()).strip("-")


class Image(Settings):
    """A picture inside a message; made by `tasks.llm.images.read_image`, which checks type and size."""

    media_type: ImageType
    data: bytes = Field(repr=False)

    @cached_property
    def sha256(self) -> str:
        """Digest of the picture's bytes: what stands for it in the request key."""
        return hashlib.sha256(self.data).hexdigest()


class Tool(Settings):
    """A function that a model may call, told to the endpoint beside the messages."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str
    parameters: dict[str, JsonValue] = Field(description="JSON schema of the arguments.")


class ToolCall(Settings):
    """A call that a model wrote: arguments are its own text, meant to be JSON."""

    id: str
    name: str
    arguments: str


class Message(Settings):
    """One turn of a conversation: text, or texts and pictures in order; role `tool`: what a called function gave."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | tuple[str | Image, ...]
    tool_calls: tuple[ToolCall, ...] = Field(default=(), description="Of an assistant's turn.")
    tool_call_id: str | None = Field(default=None, description="Which call a turn of role `tool` answers.")
    reasoning: Mapping[str, JsonValue] = Field(
        default={}, description="Of an assistant's turn: its reasoning, for servers that want it back."
    )

    @property
    def pieces(self) -> tuple[str | Image, ...]:
        """The content as texts and pictures in order."""
        return (self.content,) if isinstance(self.content, str) else self.content


SENT_BY_FIELDS = frozenset(
    {
        "model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "response_format", "temperature",
        "seed", "top_p", "stop", "logprobs", "top_logprobs",
    }
)  # fmt: skip
"""Names that `Parameters.extra` may not carry: they have a field of their own, or would break caps and parsing."""


class Parameters(Settings):
    """How the model is asked to write. `None`: not sent, for models that refuse the parameter."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    seed: int | None = 42
    max_tokens: int = Field(default=512, ge=1, description="Upper bound of tokens written, reasoning included.")
    top_p: float | None = Field(default=None, gt=0, le=1)
    stop: tuple[str, ...] = Field(default=(), max_length=4)
    top_logprobs: int | None = Field(default=None, ge=0, le=20, description="Alternatives a token; None: no logprobs.")
    extra: dict[str, JsonValue] = Field(default={}, description="Further members of the request, as the endpoint says.")

    @field_validator("extra")
    @classmethod
    def _no_second_way(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted(SENT_BY_FIELDS & extra.keys()):
            raise ValueError(f"{', '.join(taken)}: set by fields of their own, not through extra")
        return extra


class PromptRef(NamedTuple):
    """Which prompt file a request was made from; all three enter the request key."""

    id: str
    version: int
    sha256: str

    @property
    def name(self) -> str:
        """`id@version`."""
        return f"{self.id}@{self.version}"


class Request(Settings, Generic[AnswerT]):
    """One question.

    Attributes:
        messages: The conversation so far, at least one message.
        stage: Who pays: the name under which budget and cost are kept. Not part of the key.
        prompt: The prompt file behind the messages; None for free text.
        answer: The form that the answer must have; None for plain text.
        parameters: How the model is asked to write.
        model: Model by the endpoint's name; None for the door's own.
        attempt: Raised to ask the same again and get a fresh reply (stability of a judge).
        tools: Functions that the model may call instead of answering in words.
    """

    messages: tuple[Message, ...] = Field(min_length=1)
    stage: str = Field(min_length=1)
    prompt: PromptRef | None = None
    answer: type[AnswerT] | None = None
    parameters: Parameters = Parameters()
    model: str | None = Field(default=None, min_length=1)
    attempt: int = Field(default=0, ge=0)
    tools: tuple[Tool, ...] = ()


class Tokens(NamedTuple):
    """Tokens read and written."""

    input: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """Both together, as caps count them."""
        return self.input + self.output


class Usage(NamedTuple):
    """What a call used. `estimated`: the endpoint did not say, so both stand for their upper bounds."""

    tokens: Tokens = Tokens()
    nano_usd: int = 0
    estimated: bool = False

    @property
    def usd(self) -> float:
        """Price in USD. Kept as whole nano-dollars, so that sums are exact."""
        return self.nano_usd / 1e9


NO_USAGE = Usage()


class Price(Settings):
    """What a model costs. Discounts for prompt caching are not applied: a cost is never stated too low."""

    input: float = Field(ge=0, description="USD per million tokens read.")
    output: float = Field(ge=0, description="USD per million tokens written.")
    image_tokens: int = Field(default=8000, ge=0, description="Upper bound of tokens that one picture is read as.")
    batch_factor: float = Field(default=1.0, gt=0, le=1, description="Share of the price that batch calls cost.")

    def nano_usd(self, tokens: Tokens) -> int:
        """Price of `tokens` in nano-dollars, rounded up."""
        return ceil(round(tokens.input * self.input * 1000 + tokens.output * self.output * 1000, 3))

    def batched(self) -> "Price":
        """The price of the same model's batch calls."""
        cheaper = {"input": self.input * self.batch_factor, "output": self.output * self.batch_factor}
        return self.model_copy(update=cheaper)


@dataclass(frozen=True, slots=True)
class Reply(Generic[AnswerT]):
    """What came back for a request.

    Attributes:
        outcome: `ok`, or why there is no answer.
        reason: One line, empty when `ok`.
        text: The model's text without its reasoning; kept also when it could not be parsed.
        answer: The parsed answer; None unless `ok` and an answer type was asked for.
        usage: What the calls behind this reply used when they were made, repair turn included.
        keys: Keys of those calls in order; two when a repair turn was needed.
        source: Where the last of them came from.
        model: The model as the endpoint names it.
        raw: The last call's body as received, with the API key cut out; empty when there was none.
        tool_calls: Functions that the model wants called, when the request offered any.
        cut: Whether the text stopped at the token limit; what was written of a free answer is used all the same.
        settled: Whether asking again gives the same reply; not after a call that failed at the endpoint.
        reasoning: Members of the reply's message that hold the model's reasoning, as the endpoint names them.
    """

    outcome: CallOutcome
    keys: tuple[str, ...]
    source: ReplySource
    reason: str = ""
    text: str = ""
    answer: AnswerT | None = None
    usage: Usage = NO_USAGE
    model: str = ""
    raw: bytes = field(default=b"", repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    cut: bool = False
    settled: bool = True
    reasoning: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def repaired(self) -> bool:
        """Whether the first answer did not have the form asked for, and a second turn was needed."""
        return len(self.keys) > 1


class Demand(NamedTuple):
    """What a system asks of a model for one topic, as measured on real surveys: for estimates before a run.

    Attributes:
        calls: Calls.
        read: Tokens read by all of them.
        written: Tokens written by all of them.
    """

    calls: float
    read: float
    written: float


class Rehearsed(NamedTuple):
    """A call that was looked up and not sent: what it would use, and at most; `cached`: its reply is stored."""

    cached: bool
    likely: Usage
    bound: Usage


class Estimate(NamedTuple):
    """What a set of requests would cost before it is sent.

    `usd` takes four bytes a token and answers of full length; `usd_bound` cannot be exceeded by calls that are neither
    retried nor repaired.
    """

    calls: int
    cached: int
    tokens: Tokens
    usd: float
    usd_bound: float

    @classmethod
    def of(cls, rehearsed: Collection[Rehearsed]) -> "Estimate":
        """Sums up calls; those whose replies are stored are free."""
        new = [call for call in rehearsed if not call.cached]
        tokens = Tokens(sum(call.likely.tokens.input for call in new), sum(call.likely.tokens.output for call in new))
        usd, bound = sum(call.likely.nano_usd for call in new) / 1e9, sum(call.bound.nano_usd for call in new) / 1e9
        return cls(len(rehearsed), len(rehearsed) - len(new), tokens, usd, bound)
