"""The records that the layers of the door pass on: a call, the result of one attempt, and the finished exchange."""

from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.errors import ArenaError
from schemas.llm import NO_USAGE, CallOutcome, Price, ReplySource, Usage
from schemas.llm_profile import PLAIN, ModelProfile
from tasks.llm.gate import NO_QUOTAS, Quotas
from tasks.llm.key import RequestKey
from tasks.llm.structured import has_text
from tasks.llm.wire import Completion, read_completion

FINAL: frozenset[CallOutcome] = frozenset({"ok", "refused", "cut", "invalid", "too_long"})
"""Outcomes that are reused from the cache; calls with any other outcome are sent again."""

READABLE: frozenset[CallOutcome] = frozenset({"ok", "empty", "cut", "invalid"})
"""Outcomes of calls that brought a reply, whose text is read again whenever the call is found."""


class Call(NamedTuple):
    """A call that is ready to be sent.

    `bound` is the most it can use, `likely` what it is expected to use.
    """

    keyed: RequestKey
    provider: str
    model: str
    prompt: str
    stage: str
    body: bytes
    price: Price
    bound: Usage
    likely: Usage
    profile: ModelProfile = PLAIN


@dataclass(frozen=True, slots=True)
class Exchange:
    """A finished call as it is stored; `completion` is its body, where that was parsed already."""

    key: str
    outcome: CallOutcome
    source: ReplySource
    reason: str = ""
    raw: bytes = field(default=b"", repr=False)
    usage: Usage = NO_USAGE
    completion: Completion | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of one attempt to send a call.

    Attributes:
        body: The reply's JSON body; empty if there was no usable one.
        trouble: Why the attempt failed; empty if it succeeded.
        retry: Whether another attempt may succeed.
        refused: The provider declined to answer this request.
        too_long: The request does not fit into the model's context.
        charged: The endpoint may bill the attempt although it failed.
        retry_after_s: Seconds that the endpoint asked to wait.
        limited: The endpoint turned the call away because of its rate limits.
        quotas: What the endpoint says is left of its limits.
        error: Set if every call would fail alike (key, model, address); raised after the last attempt.
        completion: The body, where it was parsed already.
    """

    body: bytes = field(default=b"", repr=False)
    trouble: str = ""
    retry: bool = False
    refused: bool = False
    too_long: bool = False
    charged: bool = False
    retry_after_s: float | None = None
    limited: bool = False
    quotas: Quotas = NO_QUOTAS
    error: ArenaError | None = None
    completion: Completion | None = field(default=None, repr=False)


NOT_SENT = SendResult()


def to_exchange(key: str, sent: SendResult, bound: Usage, price: Price) -> Exchange:
    """Returns the exchange of an attempt, with its usage as reported, or else the upper bound."""
    unknown = bound._replace(estimated=True)
    if sent.trouble:
        outcome = "refused" if sent.refused else "too_long" if sent.too_long else "failed"
        return Exchange(key, outcome, "provider", sent.trouble, usage=unknown if sent.charged else NO_USAGE)
    completion = sent.completion or read_completion(sent.body)
    usage = Usage(completion.tokens, price.nano_usd(completion.tokens)) if completion.tokens else unknown
    outcome, reason = read_outcome(completion)
    return Exchange(key, outcome, "provider", reason, sent.body, usage, completion)


def read_outcome(completion: Completion) -> tuple[CallOutcome, str]:
    """Returns the outcome of a reply before its form is checked, and the reason where it is not `ok`."""
    if completion.problem:
        return ("refused" if completion.refused else "failed"), completion.problem
    if completion.cut:
        return "cut", "the reply stopped at the token limit"
    if completion.tool_calls or has_text(completion.text):
        return "ok", ""
    return "empty", "the answer is empty" + (": the reply holds reasoning alone" if completion.text.strip() else "")
