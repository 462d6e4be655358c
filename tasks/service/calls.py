"""What each call of a topic does: one function a call, the same behind REST and MCP."""

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from schemas import service
from schemas.errors import BadInput
from schemas.paperqa import PaperId
from schemas.submission import Task
from schemas.tables.runs import SearchRow
from tasks.paperqa.calculator import calculate
from tasks.paperqa.desk import PaperQaDesk
from tasks.retrieval.desk import ResearchDesk
from tasks.service.editions import ServedEdition
from tasks.service.problems import Refused, unavailable

EXACT = 2**53
"""Numbers below it are written as they are; JSON readers round larger ones."""


class Done(NamedTuple):
    """The answer of a call, without what is left of the quotas, and what the record says of it."""

    answer: dict[str, Any]
    returned: tuple[Any, ...] = ()
    search: SearchRow | None = None


class Asking(NamedTuple):
    """Who asks: the edition and the topic, as the edition names it; `library` is the desk of a question."""

    edition: ServedEdition
    topic: str
    library: PaperQaDesk | None = None


class TopicCall(NamedTuple):
    """A call that a topic's token allows.

    Attributes:
        name: Path under `/v1`.
        tool: Name of the tool.
        body: What is sent.
        answer: What is answered.
        run: Does it.
        searches: How many searches it takes.
        documents: How many documents it takes, from what is sent.
        paperqa: Whether it is for questions over papers; the others are for surveys.
    """

    name: str
    tool: str
    body: type[BaseModel]
    answer: type[BaseModel]
    run: Callable[[Asking, Any], Done]
    searches: int = 0
    documents: Callable[[Any], int] = lambda _: 0
    paperqa: bool = False


def show_hits(edition: ServedEdition, desk: ResearchDesk, found: list[Any]) -> Done:
    """Returns the answer of a search that a desk has just made."""
    (search,) = desk.searches
    cards = edition.cards([hit.corpus_id for hit in found])
    hits = [
        {"rank": rank, "corpus_id": hit.corpus_id, "score": hit.score, "title": card["title"], "year": card["year"]}
        for rank, (hit, card) in enumerate(zip(found, cards, strict=True), 1)
    ]
    returned = tuple(int(hit.corpus_id) for hit in found)
    return Done({"hits": hits, "engine": search.retriever}, returned, SearchRow(*search))


def search(asking: Asking, body: service.Search) -> Done:
    """Searches the documents."""
    require_engine(asking.edition, body.engine)
    desk = asking.edition.desk(asking.topic)
    return show_hits(asking.edition, desk, desk.search(body.query, body.k, body.engine))


def require_engine(edition: ServedEdition, engine: str | None) -> None:
    """Checks that the edition has an engine.

    Raises:
        Refused: It has not.
    """
    engines = sorted(edition.backend.engines)
    if engine is not None and engine not in engines:
        raise Refused(422, f"engine: the edition has {', '.join(engines)}", field="engine")


def read_documents(asking: Asking, body: service.Documents) -> Done:
    """Reads documents, all of them or none."""
    if not asking.edition.allowed(asking.topic).visible(body.ids).all():
        raise unavailable()
    documents = asking.edition.documents(asking.edition.desk(asking.topic), body.ids)
    return Done({"documents": documents}, tuple(body.ids))


def look_up(asking: Asking, body: service.Neighbours) -> Done:
    """Looks up the papers at the other end of a document's citations."""
    if not asking.edition.allowed(asking.topic).visible([body.id]).all():
        raise unavailable()
    desk = asking.edition.desk(asking.topic)
    found = (desk.references if isinstance(body, service.References) else desk.citations)(body.id, body.k, body.offset)
    (row,) = desk.searches
    answer = {"papers": asking.edition.cards(found.papers), "total": found.total}
    return Done(answer, tuple(map(int, found.papers)), SearchRow(*row))


def run_sql(asking: Asking, body: service.Sql) -> Done:
    """Runs a query over the papers of a question."""
    return Done({"result": _library(asking).sql(body.query)})


def find_passages(asking: Asking, body: service.Passages) -> Done:
    """Finds passages of the papers of a question."""
    found = _library(asking).search(body.query, body.k)
    names = {"paper_id": "paper"}
    passages = [{names.get(name, name): value for name, value in row._asdict().items()} for row in found]
    return Done({"passages": passages}, tuple(dict.fromkeys(row.paper_id for row in found)))


def show_page(asking: Asking, body: service.Page) -> Done:
    """Renders a page."""
    desk = _library(asking)
    if body.paper not in desk.scope:
        raise unavailable()
    try:
        image = desk.view(PaperId(body.paper), body.page)
    except BadInput as error:
        raise Refused(422, f"page: {error}", field="page") from error
    data = base64.b64encode(image.data).decode()
    return Done({"image": f"data:{image.media_type};base64,{data}"}, (body.paper,))


def compute(asking: Asking, body: service.Calculate) -> Done:
    """Computes an expression."""
    try:
        value = calculate(body.expression)
        return Done({"result": value if abs(value) < EXACT else float(value)})
    except (BadInput, OverflowError) as error:
        raise Refused(422, f"expression: {error}", field="expression") from error


def _library(asking: Asking) -> PaperQaDesk:
    assert asking.library is not None
    return asking.library


CALLS: tuple[TopicCall, ...] = (
    TopicCall("search", "search", service.Search, service.SearchAnswer, search, searches=1),
    TopicCall(
        "documents",
        "get_documents",
        service.Documents,
        service.DocumentsAnswer,
        read_documents,
        documents=lambda body: len(body.ids),
    ),
    TopicCall("references", "references", service.References, service.NeighboursAnswer, look_up, searches=1),
    TopicCall("citations", "citations", service.Citations, service.NeighboursAnswer, look_up, searches=1),
    TopicCall("sql", "sql", service.Sql, service.SqlAnswer, run_sql, searches=1, paperqa=True),
    TopicCall(
        "passages", "passages", service.Passages, service.PassagesAnswer, find_passages, searches=1, paperqa=True
    ),
    TopicCall("page", "page", service.Page, service.PageAnswer, show_page, documents=lambda _: 1, paperqa=True),
    TopicCall("calculate", "calculate", service.Calculate, service.CalculateAnswer, compute, paperqa=True),
)
"""Every call of a topic but `submit`."""


def calls_of(task: Task) -> tuple[TopicCall, ...]:
    """Returns the calls that the topics of a task allow, beside `submit`."""
    return tuple(call for call in CALLS if call.paperqa == (task == "paperqa"))
