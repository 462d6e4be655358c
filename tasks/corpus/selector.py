"""Who decides whether a candidate is a literature survey: the interface, the registry, and how a selector is scored."""

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from schemas.errors import BadInput
from schemas.llm import CallOutcome, LlmAccess, ModelName
from schemas.registry import Registry
from tasks.llm.asker import Asker, open_door
from tasks.llm.blocking import BlockingDoor
from tasks.store.dataset import Dataset

Word = Literal["substring", "whole_word"]
TITLE_PATTERNS: dict[Word, str] = {"substring": r"(?i)survey", "whole_word": r"(?i)\bsurvey\b"}
"""How a candidate's title must contain the word: patterns that mean the same to `re` and to RE2 (DuckDB)."""

Label = Literal["yes", "no", "unsure"]


class LabelLine(BaseModel):
    """One line of a file of labels; what else it holds is not read."""

    corpusid: int
    label: Label


class Candidate(NamedTuple):
    """A paper whose title passed the filter: all that a selector is told."""

    corpus_id: int
    title: str
    abstract: str | None


class Verdict(NamedTuple):
    """A selector's decision on one candidate; `model` and `prompt_id` say who was asked what, where a model was.

    `outcome` other than `ok`: the model gave no usable verdict, which counts as a no.
    """

    accepted: bool
    reason: str
    model: str | None = None
    prompt_id: str | None = None
    outcome: CallOutcome = "ok"


class SurveyAnswer(BaseModel):
    """A verdict as a model answers it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str
    survey: bool


@dataclass
class Asking:
    """What a selector that asks a model is given.

    Attributes:
        door: Where questions go.
        model: Which model is asked.
        access: How many questions may be under way, and whether they go through the batch service.
        askers: Everyone who asked so far, in the order of the candidates.
    """

    door: BlockingDoor
    model: ModelName
    access: LlmAccess
    askers: list[Asker] = field(default_factory=list[Asker])


@contextmanager
def open_asking(access: LlmAccess | None, model: ModelName | None) -> Generator[Asking | None]:
    """The way to a model; None where none is named.

    Raises:
        UsageError: A model is named, and no endpoint is set up for it.
    """
    if model is None:
        yield None
        return
    with open_door(access, model) as door:
        assert access is not None
        yield Asking(door, model, access)


class SurveySelector(Protocol):
    """Decides batch by batch whether candidates give an organised view of the state of a field."""

    @property
    def name(self) -> str:
        """Short name under which it is registered, for example `rules`."""
        ...

    @property
    def prompt_id(self) -> str | None:
        """The prompt with which it asks a model, `id@version`; None: it asks none."""
        ...

    def select(self, candidates: Sequence[Candidate], asking: Asking | None = None) -> list[Verdict]:
        """One verdict per candidate, in their order; a verdict never depends on the rest of the batch.

        Args:
            candidates: Any number.
            asking: The way to a model, for a selector that asks one.

        Raises:
            UsageError: It asks a model, and there is no way to one.
        """
        ...


_registry = Registry[Callable[[], SurveySelector]]("survey selector", "tasks.corpus.selectors")


def survey_selector(name: str) -> Callable[[type[SurveySelector]], type[SurveySelector]]:
    """Registers a class, made without arguments, as the selector `name`.

    Raises:
        ValueError: Another selector has the name.
    """

    def decorate(made: type[SurveySelector]) -> type[SurveySelector]:
        _registry.add(name, made)
        return made

    return decorate


def find_selector(name: str) -> SurveySelector:
    """The selector of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    return _registry.find(name)()


class Confusion(NamedTuple):
    """A labelled paper on which the selector disagrees with the label."""

    corpus_id: int
    title: str
    label: Label
    reason: str


class SelectorScore(NamedTuple):
    """A selector against labels; `unsure` and `absent` (not among the papers) labels enter no number.

    A paper that the title filter leaves out counts as rejected.
    """

    precision: float
    recall: float
    f1: float
    labelled: int
    unsure: int
    absent: int
    confusions: tuple[Confusion, ...]


def score_selector(
    labels: Path,
    papers: Dataset,
    selector: SurveySelector,
    word: Word = "substring",
    asking: Asking | None = None,
) -> SelectorScore:
    """Compares title filter and selector with human labels.

    Args:
        labels: JSON lines `{"corpusid": int, "title": str, "label": "yes" | "no" | "unsure"}`.
        papers: Where titles and abstracts are taken from.
        selector: Who decides.
        word: The title filter.
        asking: The way to a model, for a selector that asks one.

    Raises:
        BadInput: The labels cannot be read, or none of them belongs to a paper of the dataset.
    """
    wanted = _read_labels(labels)
    found = {candidate.corpus_id: candidate for candidate in _read_candidates(papers, list(wanted))}
    decided = [i for i, label in wanted.items() if label != "unsure" and i in found]
    if not decided:
        raise BadInput(
            f"labels {labels}: none of {len(wanted)} is for a paper of {papers.ref.stage}/{papers.ref.key}; "
            "score against the edition that they were made for"
        )
    verdicts = selector.select([found[i] for i in decided], asking)
    accepted = {
        i: verdict.accepted and re.search(TITLE_PATTERNS[word], found[i].title) is not None
        for i, verdict in zip(decided, verdicts, strict=True)
    }
    confusions = tuple(
        Confusion(i, found[i].title, wanted[i], verdict.reason)
        for i, verdict in zip(decided, verdicts, strict=True)
        if accepted[i] != (wanted[i] == "yes")
    )
    hits = sum(accepted[i] and wanted[i] == "yes" for i in decided)
    yes = sum(wanted[i] == "yes" for i in decided)
    unsure = sum(label == "unsure" for label in wanted.values())
    return SelectorScore(
        precision=hits / max(1, sum(accepted.values())),
        recall=hits / max(1, yes),
        f1=2 * hits / max(1, yes + sum(accepted.values())),
        labelled=len(decided),
        unsure=unsure,
        absent=len(wanted) - unsure - len(decided),
        confusions=confusions,
    )


def _read_labels(path: Path) -> dict[int, Label]:
    labels: dict[int, Label] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"labels {path}: cannot be read ({error.strerror})") from error
    for number, line in enumerate(lines, 1):
        try:
            record = LabelLine.model_validate_json(line)
        except ValueError as error:
            raise BadInput(
                f"labels {path}, line {number}: expected corpusid and a label yes, no or unsure, found {line[:80]!r}"
            ) from error
        labels[record.corpusid] = record.label
    return labels


def _read_candidates(papers: Dataset, ids: list[int]) -> list[Candidate]:
    """The papers among `ids` that have a title, file by file."""
    chosen = pa.array(ids, pa.int64())
    rows: list[Candidate] = []
    for path in papers.files():
        table = pq.read_table(
            path, columns=["corpus_id", "title", "abstract"], filters=pc.field("corpus_id").isin(chosen)
        )
        rows += [Candidate(**row) for row in table.to_pylist() if row["title"] is not None]
    return rows
