"""The interface and the registry of systems that answer questions over papers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field

from schemas.llm import Demand
from schemas.paperqa import AnswerOutcome, Question
from schemas.registry import Registry
from schemas.settings import Settings
from tasks.llm.asker import Asker
from tasks.paperqa.desk import PaperQaDesk

Protocol = Literal["functions", "text"]
"""How an agent requests actions: by function calls if the endpoint supports them, else by a JSON object in its text."""

CHARACTERS_PER_TOKEN = 4
"""Characters per token when a text is cut at a number of tokens; no tokenizer is needed."""

IMAGE_TOKENS = 1500
"""Tokens that a picture of a page takes in a conversation, about."""


class Limits(Settings):
    """Limits of a system for one question.

    Source: NeuSym-RAG's defaults for turns, window, tokens written, images, evidence and passages.
    """

    turns: int = Field(default=20, ge=1, le=100, description="Turns of an agent.")
    window: int = Field(default=5, ge=1, le=100, description="Latest turns that an agent is shown again.")
    written_tokens: int = Field(default=1500, ge=16, description="Tokens that a model may write at a time.")
    context_tokens: int = Field(default=32_000, ge=1000, description="Length of a conversation, about.")
    evidence_tokens: int = Field(default=5000, ge=100, description="Length of papers put before a question, about.")
    passages: int = Field(default=4, ge=1, le=50, description="Passages of classic RAG.")
    observed_characters: int = Field(
        default=8000, ge=500, le=100_000, description="Characters of a result that an agent is shown at a time."
    )
    images: int = Field(default=10, ge=0, le=50, description="Pages that an agent may look at.")
    tokens: int | None = Field(
        default=None, ge=1, description="Tokens read and written for a question; empty: no limit."
    )
    usd: float | None = Field(default=None, gt=0, description="Price of a question in USD; empty: no limit.")


class Kit(NamedTuple):
    """Everything that a system may use: the desk of its question, a model, limits."""

    desk: PaperQaDesk
    asker: Asker
    limits: Limits
    protocol: Protocol = "functions"


class Step(NamedTuple):
    """A row of table `paperqa_steps`, without the question and the number of the turn."""

    action: str | None
    arguments: str
    observation: str
    images: int = 0


class Answered(NamedTuple):
    """What a system returns: the answer as text (None unless the outcome is `answered`), and its trajectory."""

    answer: str | None
    outcome: AnswerOutcome = "answered"
    note: str | None = None
    steps: tuple[Step, ...] = ()


System = Callable[[Question, Kit], Answered]


@dataclass(frozen=True)
class PaperQaBaseline:
    """A registered system: name, one-sentence description, function, version (raised when its answers change).

    `searches` says whether its answers depend on which papers it may search, and `asks` what a system that asks several
    times usually needs for a question.
    """

    name: str
    description: str
    system: System
    version: int
    searches: bool = True
    asks: Demand | None = None


_registry = Registry[PaperQaBaseline](
    "system that answers questions", "tasks.paperqa.baselines", group="arena.paperqa_baselines"
)

all_paperqa_baselines = _registry.all
"""Every system by name: each file of `tasks/paperqa/baselines`, and the entry points of other packages."""

find_paperqa_baseline = _registry.find
"""Returns the system of that name; if there is none, a UsageError lists the systems."""


def paperqa_baseline(
    name: str, description: str, *, version: int = 1, searches: bool = True, asks: Demand | None = None
) -> Callable[[System], System]:
    """Registers a function as a system that answers questions.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it does.
        version: Raised whenever its answers can change.
        searches: False if it looks at the papers that a question names and at no others, whatever its desk allows.
        asks: For estimates, the model calls of a system that asks several times for a question; None: it asks once.
    """

    def decorate(system: System) -> System:
        _registry.add(name, PaperQaBaseline(name, description, system, version, searches, asks))
        return system

    return decorate


def cut(text: str, tokens: int) -> str:
    """Returns the beginning of a text, cut at about `tokens` tokens."""
    return text[: tokens * CHARACTERS_PER_TOKEN]
