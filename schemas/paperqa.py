"""Questions over papers: annotated examples, what a system sees of them, paper metadata, and findings of checks."""

import re
import uuid as uuids
from typing import Annotated, Any, Literal, NewType, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

QuestionId = NewType("QuestionId", str)
"""Lower-case UUID of a question."""

PaperId = NewType("PaperId", str)
"""Lower-case UUID of a paper."""

AnswerOutcome = Literal[
    "answered", "empty", "failed", "refused", "over_budget", "turn_limit", "token_limit", "cost_limit"
]
"""How a system ended on a question. Limits: of turns, tokens or price for one question; `over_budget`: of the run."""

TASK_TAGS = frozenset({"single", "multiple", "retrieval", "comprehensive"})
ELEMENT_TAGS = frozenset({"text", "table", "image", "formula", "metadata"})
EVALUATION_TAGS = frozenset({"subjective", "objective"})
TAG_ALIASES = {"figure": "image"}
"""Unpublished tags with the published tag that each one means."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _question_id(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise PydanticCustomError("V1", "{value} is not a lower-case UUID", {"value": value[:80]})
    return value


def _paper_id(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise PydanticCustomError("V7", "{value} is not a lower-case UUID of a paper", {"value": value[:80]})
    return value


def _not_empty(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("V2", "the question is empty")
    return value


def _complete_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    known = [TAG_ALIASES.get(tag, tag) for tag in tags]
    counts = [sum(tag in group for tag in known) for group in (TASK_TAGS, EVALUATION_TAGS, ELEMENT_TAGS)]
    if counts[0] != 1 or counts[1] != 1 or counts[2] < 1:
        message = "one task tag, one evaluation tag and an element tag are needed, got {tags}"
        raise PydanticCustomError("V4", message, {"tags": ", ".join(tags)[:200] or "none"})
    return tags


PaperRef = Annotated[PaperId, AfterValidator(_paper_id)]


class EvaluatorCall(BaseModel):
    """The evaluator of a question: the name of a registered function and its keyword arguments."""

    model_config = ConfigDict(frozen=True)

    eval_func: str
    eval_kwargs: dict[str, Any]


class Question(BaseModel):
    """A question as a system sees it.

    It is a separate type, so that the hidden part of an annotated example (references, evaluator, reasoning, tags)
    cannot reach a system by accident.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uuid: QuestionId
    question: str
    answer_format: str = Field(description="What an answer should look like; may be empty.")
    anchor_pdf: tuple[PaperId, ...] = Field(description="Papers that the question names.")
    conference: tuple[str, ...] = Field(description="Search space, for example acl2023.")


class AnnotatedExample(BaseModel):
    """A question with its hidden part; fields that neither published form has are dropped.

    The type of a validation error is the id of the broken rule (V1, V2, V4, V6, V7), or pydantic's own if a field is
    missing or has the wrong type (V3).
    """

    model_config = ConfigDict(frozen=True)

    uuid: Annotated[QuestionId, AfterValidator(_question_id)]
    question: Annotated[str, AfterValidator(_not_empty)]
    answer_format: str
    tags: Annotated[tuple[str, ...], AfterValidator(_complete_tags)]
    anchor_pdf: tuple[PaperRef, ...]
    reference_pdf: tuple[PaperRef, ...] = Field(description="Hidden evidence.")
    conference: tuple[str, ...]
    evaluator: EvaluatorCall
    reasoning_steps: tuple[str, ...] = Field(default=(), description="Hints that lead to the answer.")
    state: dict[str, Any] = Field(default_factory=dict, description="Which chat products answered correctly.")
    annotator: str | None = Field(default=None, description="Origin: human, litsearch_manual, litsearch_automatic.")

    @model_validator(mode="after")
    def _disjoint_papers(self) -> Self:
        both = sorted(set(self.anchor_pdf) & set(self.reference_pdf))
        if both:
            raise PydanticCustomError(
                "V6", "papers are anchor and reference at once: {both}", {"both": ", ".join(both)}
            )
        return self

    @property
    def task(self) -> str:
        """The task tag."""
        return next(tag for tag in self.tags if tag in TASK_TAGS)

    def visible(self) -> Question:
        """Returns the part that a system may see."""
        return Question(
            uuid=self.uuid,
            question=self.question,
            answer_format=self.answer_format,
            anchor_pdf=self.anchor_pdf,
            conference=self.conference,
        )


class PaperMetadata(BaseModel):
    """The published metadata of one paper."""

    model_config = ConfigDict(frozen=True)

    uuid: PaperRef
    title: str
    conference_full: str
    conference: str = Field(description="Abbreviation; its spelling varies (ACL, NeurIPS, arxiv).")
    year: int = Field(strict=True)
    volume: str | None = None
    bibtex: str
    authors: tuple[str, ...]
    num_pages: int = Field(strict=True, ge=0)
    pdf_url: str
    pdf_path: str
    abstract: str
    tldr: str
    tags: tuple[str, ...] = Field(description="Keywords.")

    @property
    def venue(self) -> str:
        """The conference as questions name it: acl2023."""
        return f"{self.conference.lower()}{self.year}"

    def expected_uuid(self) -> str:
        """Returns the UUID of title, conference and year (version 5, DNS namespace, letters and digits only)."""
        title = re.sub("[^a-z0-9]", "", self.title.lower())
        return str(uuids.uuid5(uuids.NAMESPACE_DNS, f"{title}-{self.venue}"))


class Finding(BaseModel):
    """A rule that a line of a questions file or a metadata file breaks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str = Field(description="V: hard, the record is unfit; W: soft, the record is used.")
    severity: Literal["hard", "soft"]
    file: str
    line: int | None = Field(description="1-based; null for a metadata file.")
    uuid: str | None = Field(description="Of the question or paper; null when it cannot be read.")
    where: str = Field(description="Path inside the record.")
    message: str
