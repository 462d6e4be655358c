"""The actions of agents: name, arguments and effect of each."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from schemas.errors import BadInput
from schemas.llm import Image, Tool
from schemas.paperqa import PaperId
from tasks.paperqa.calculator import calculate
from tasks.paperqa.desk import PaperQaDesk
from tasks.paperqa.oneshot import show_passage
from tasks.paperqa.paper_library import EngineName, PassageKind
from tasks.paperqa.sql_child import MOST_CHARACTERS, MOST_ROWS

ANSWER = "generate_answer"


class Arguments(BaseModel):
    """Base class of an action's arguments; unknown arguments are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Observation(NamedTuple):
    """The result of an action."""

    text: str
    images: tuple[Image, ...] = ()


class Action(NamedTuple):
    """An action that an agent can take."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[PaperQaDesk, Any], Observation]

    @property
    def tool(self) -> Tool:
        """Returns the action as a function definition for the endpoint."""
        return Tool(name=self.name, description=self.description, parameters=self.arguments.model_json_schema())


class InParts(Arguments):
    """Arguments of an action whose result may be longer than an agent is shown at a time."""

    part: int = Field(default=1, ge=1, description="Part of a long result; 1 is the first.")


class FromDatabase(InParts):
    """Arguments of `retrieve_from_database`."""

    sql: str = Field(description="One SELECT statement in DuckDB's SQL.")


class FromVectors(InParts):
    """Arguments of `retrieve_from_vectorstore`."""

    query: str
    collection: EngineName = Field(default="dense", description="dense: by meaning; bm25: by words.")
    kind: PassageKind | None = Field(default=None, description="Only passages of that kind.")
    paper_id: str | None = Field(default=None, description="Only passages of that paper.")
    limit: int = Field(default=5, ge=1, le=20)


class Classic(InParts):
    """Arguments of `classic_retrieve`."""

    query: str
    limit: int = Field(default=5, ge=1, le=20)


class Expression(Arguments):
    """Arguments of `calculate`."""

    expr: str = Field(description="Arithmetic, for example (85.3 - 80) / 80 * 100.")


class PageView(Arguments):
    """Arguments of `view_image`."""

    paper_id: str
    page_number: int = Field(ge=1, description="1 is the first page.")
    bounding_box: list[float] = Field(
        default=[], description="Empty for the whole page, else [x, y, width, height] in points from the upper left."
    )


class FinalAnswer(Arguments):
    """Arguments of `generate_answer`."""

    answer: JsonValue = Field(description="The answer in the form asked for; text, number, list or object.")


def show_part(text: str, part: int, characters: int) -> str:
    """Returns one part of a long text, and says how many there are; a short text comes whole.

    Args:
        text: The text; its parts end at the end of a line where the second half of a part has one.
        part: 1 is the first.
        characters: Longest part.

    Raises:
        BadInput: The text has fewer parts.
    """
    ends = [0]
    while len(text) - ends[-1] > characters:
        middle, last = ends[-1] + characters // 2, ends[-1] + characters
        ends.append(text.rfind("\n", middle, last) + 1 or last)
    parts = len(ends)
    if part > parts:
        raise BadInput(f"the result has {parts} {'parts' if parts > 1 else 'part'}; there is no part {part}")
    if parts == 1:
        return text
    shown = text[ends[part - 1] : [*ends, len(text)][part]]
    following = f"; the same action with part {part + 1} shows the next" if part < parts else ""
    return f"{shown.rstrip()}\n(part {part} of {parts}, the whole has {len(text)} characters{following})"


def _from_database(desk: PaperQaDesk, arguments: FromDatabase) -> Observation:
    return Observation(desk.sql(arguments.sql))


def _from_vectors(desk: PaperQaDesk, arguments: FromVectors) -> Observation:
    paper = PaperId(arguments.paper_id) if arguments.paper_id else None
    found = desk.search(arguments.query, arguments.limit, arguments.collection, arguments.kind, paper)
    return Observation("\n\n".join(map(show_passage, found)) or "No passages.")


def _classic(desk: PaperQaDesk, arguments: Classic) -> Observation:
    return Observation("\n\n".join(map(show_passage, desk.search(arguments.query, arguments.limit))) or "No passages.")


def _calculate(desk: PaperQaDesk, arguments: Expression) -> Observation:
    return Observation(str(calculate(arguments.expr)))


def _view(desk: PaperQaDesk, arguments: PageView) -> Observation:
    image = desk.view(PaperId(arguments.paper_id), arguments.page_number, arguments.bounding_box)
    return Observation(f"Page {arguments.page_number} is shown.", (image,))


def _answer(desk: PaperQaDesk, arguments: FinalAnswer) -> Observation:
    return Observation(str(arguments.answer))


SCHEMA = (
    "Tables: papers(paper_id, title, abstract, authors, conference, year, num_pages, tldr, keywords, bibtex), "
    "sections(paper_id, place, title, level, page, text), tables(paper_id, place, caption, html, page, bbox), "
    "figures(paper_id, place, caption, page, bbox), equations(paper_id, place, text, page), "
    "bibliography(paper_id, place, text)."
)

ActionName = Literal[
    "retrieve_from_database",
    "retrieve_from_vectorstore",
    "classic_retrieve",
    "calculate",
    "view_image",
    "generate_answer",
]

_ALL = (
    Action(
        "retrieve_from_database",
        f"Runs a query over the papers' contents, and shows up to {MOST_ROWS} rows and {MOST_CHARACTERS} characters of "
        f"their whole cells. {SCHEMA}",
        FromDatabase,
        _from_database,
    ),
    Action("retrieve_from_vectorstore", "Finds passages of the papers.", FromVectors, _from_vectors),
    Action("classic_retrieve", "Finds the passages nearest in meaning to a query.", Classic, _classic),
    Action("calculate", "Computes an arithmetic expression.", Expression, _calculate),
    Action("view_image", "Shows a page of a paper, or a part of it, as a picture.", PageView, _view),
    Action(ANSWER, "Gives the final answer and ends.", FinalAnswer, _answer),
)


def actions(*names: ActionName) -> tuple[Action, ...]:
    """Returns the named actions and the final answer."""
    return tuple(action for action in _ALL if action.name in names or action.name == ANSWER)
