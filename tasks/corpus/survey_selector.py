"""The interface of survey selectors, which decide whether a candidate is a literature survey, and their registry."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from schemas.llm import CallOutcome, ModelName
from schemas.llm_settings import LlmAccess
from schemas.registry import Registry
from tasks.llm.asker import Asker, open_door
from tasks.llm.blocking import BlockingDoor

Word = Literal["substring", "whole_word"]
TITLE_PATTERNS: dict[Word, str] = {"substring": r"(?i)survey", "whole_word": r"(?i)\bsurvey\b"}
"""How a candidate's title must contain the word. The patterns mean the same to `re` and to RE2 (DuckDB)."""


class Candidate(NamedTuple):
    """A paper whose title passed the title filter: everything that a selector sees of it."""

    corpus_id: int
    title: str
    abstract: str | None


class Verdict(NamedTuple):
    """A selector's decision on one candidate; `model` and `prompt_id` name the model and prompt, if one was used.

    An `outcome` other than `ok` means that the model gave no usable verdict, which counts as a no.
    """

    accepted: bool
    reason: str
    model: str | None = None
    prompt_id: str | None = None
    outcome: CallOutcome = "ok"


class SurveyAnswer(BaseModel):
    """The verdict on a paper."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str
    survey: bool


@dataclass
class ModelConnection:
    """The model that a selector may ask.

    Attributes:
        door: Where requests go.
        model: Which model to ask.
        access: How many requests may be in flight, and whether they go through the batch service.
        askers: One for each candidate asked about so far, in the order of the candidates.
        judged: Called by several threads, once for each verdict.
    """

    door: BlockingDoor
    model: ModelName
    access: LlmAccess
    askers: list[Asker] = field(default_factory=list[Asker])
    judged: Callable[[], None] = lambda: None


@contextmanager
def connect_model(access: LlmAccess | None, model: ModelName | None) -> Generator[ModelConnection | None]:
    """Opens the connection to a model; yields None when no model is named.

    Raises:
        UsageError: A model is named, but no endpoint is set up for it.
    """
    if model is None:
        yield None
        return
    with open_door(access, model) as door:
        assert access is not None
        yield ModelConnection(door, model, access)


class SurveySelector(Protocol):
    """Decides for each candidate whether it gives an organised view of the state of a field."""

    @property
    def name(self) -> str:
        """Short name under which it is registered, for example `rules`."""
        ...

    @property
    def prompt_id(self) -> str | None:
        """The prompt it sends to a model, `id@version`; None when it asks no model."""
        ...

    def select(self, candidates: Sequence[Candidate], connection: ModelConnection | None = None) -> list[Verdict]:
        """Returns one verdict per candidate, in their order; a verdict never depends on the rest of the batch.

        Args:
            candidates: Any number.
            connection: The model, for a selector that asks one.

        Raises:
            UsageError: The selector asks a model, and `connection` is None.
        """
        ...


_registry = Registry[Callable[[], SurveySelector]](
    "survey selector", "tasks.corpus.survey_selectors", group="arena.selectors"
)

all_selectors = _registry.all
"""Every selector by name: each file of `tasks/corpus/survey_selectors`, and the entry points of other packages."""


def survey_selector(name: str) -> Callable[[type[SurveySelector]], type[SurveySelector]]:
    """Registers a class, which is created without arguments, as the selector `name`.

    Raises:
        ValueError: Another selector has the name.
    """

    def decorate(selector: type[SurveySelector]) -> type[SurveySelector]:
        _registry.add(name, selector)
        return selector

    return decorate


def find_selector(name: str) -> SurveySelector:
    """Returns the selector of that name.

    Raises:
        UsageError: No selector has the name; the message lists the names there are.
    """
    return _registry.find(name)()
