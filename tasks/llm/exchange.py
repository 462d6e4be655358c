"""One call to a model as the layers of the door hand it on: what is asked, what became of a try, how it ended."""

from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.errors import ArenaError
from schemas.llm import NO_USAGE, CallOutcome, Price, ReplySource, Usage
from tasks.llm.key import Keyed
from tasks.llm.wire import read_completion

FINAL: frozenset[CallOutcome] = frozenset({"ok", "refused"})
"""Outcomes that stand: asking again would ask the same thing of the same model. The others are asked again."""


class Call(NamedTuple):
    """A call that may be made.

    `bound` is what it can use at most, `likely` what it is expected to use.
    """

    keyed: Keyed
    provider: str
    model: str
    prompt: str
    stage: str
    body: bytes
    price: Price
    bound: Usage
    likely: Usage


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call that has ended, as it is stored."""

    key: str
    outcome: CallOutcome
    source: ReplySource
    reason: str = ""
    raw: bytes = field(default=b"", repr=False)
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one try.

    Attributes:
        body: The reply's JSON body; empty when there was none to use.
        trouble: Why the try failed; empty when it did not.
        retry: Whether trying again may help.
        refused: The provider declined to answer this request.
        charged: The endpoint may have done the work although nothing came of it.
        retry_after_s: How long the endpoint asked to wait, in seconds.
        error: Set where the trouble is not this call's alone (key, model, address): raised when tries are used up.
    """

    body: bytes = field(default=b"", repr=False)
    trouble: str = ""
    retry: bool = False
    refused: bool = False
    charged: bool = False
    retry_after_s: float | None = None
    error: ArenaError | None = None


def ended(key: str, sent: Sent, bound: Usage, price: Price) -> Exchange:
    """How a try ended, with what it used: as reported, else at most `bound`."""
    unknown = bound._replace(estimated=True)
    if sent.trouble:
        outcome = "refused" if sent.refused else "failed"
        return Exchange(key, outcome, "provider", sent.trouble, usage=unknown if sent.charged else NO_USAGE)
    completion = read_completion(sent.body)
    usage = Usage(completion.tokens, price.nano_usd(completion.tokens)) if completion.tokens else unknown
    outcome = "refused" if completion.refused else "failed" if completion.problem else "ok"
    return Exchange(key, outcome, "provider", completion.problem, sent.body, usage)
