"""The desk of one question: the only way for a system under test to reach papers."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.llm import Image
from schemas.paperqa import PaperId, Question
from tasks.paperqa.paper_library import Card, EngineName, PaperLibrary, Passage, PassageKind
from tasks.paperqa.pdf import render_page
from tasks.paperqa.sandbox import SqlSandbox, show_result

Scope = Literal["named", "library"]
"""`named`: a question's anchors, or the papers of its conferences; `library`: every paper, whatever it names."""

MOST_PASSAGES = 50


class Lookup(NamedTuple):
    """A row of table `paperqa_lookups`, without the question."""

    place: int
    tool: str
    request: str
    returned: int
    papers: list[PaperId]


class PaperQaDesk:
    """Search, SQL, texts and pages for one question; papers outside its scope do not exist here.

    Args:
        question: The question.
        library: The papers.
        scope: Which papers the question may use.

    Attributes:
        missing: Anchor papers that the library does not have.
        lookups: Every lookup so far, in order.
        scope_name: Which papers the question may use.

    Deviates:
        Upstream lets agents search everything, whatever a question names; that is `scope="library"`. With `named`, no
        system can reach the hidden references of a question over several papers.
    """

    def __init__(self, question: Question, library: PaperLibrary, scope: Scope = "named") -> None:
        self.question = question
        self.lookups: list[Lookup] = []
        self.scope_name: Scope = scope
        self._library = library
        self._sandbox: SqlSandbox | None = None
        anchors = dict.fromkeys(question.anchor_pdf)
        self.missing: tuple[PaperId, ...] = tuple(paper for paper in anchors if paper not in library.cards)
        self._anchors = [paper for paper in anchors if paper in library.cards]
        self._scope = _scope(question, library) if scope == "named" else frozenset(library.cards)

    @property
    def scope(self) -> frozenset[PaperId]:
        """The papers in the scope of this question."""
        return self._scope

    @property
    def anchors(self) -> list[Card]:
        """The papers that the question names and the library has, in the question's order."""
        return [self._library.cards[paper] for paper in self._anchors]

    def search(
        self,
        query: str,
        k: int,
        engine: EngineName = "dense",
        kind: PassageKind | None = None,
        paper: PaperId | None = None,
    ) -> list[Passage]:
        """Returns the best passages of the scope.

        Args:
            query: Text.
            k: Number of passages, 1 to 50.
            engine: `dense` (embeddings) or `bm25` (terms).
            kind: Only passages of that kind.
            paper: Only passages of that paper.

        Raises:
            BadInput: `k` is out of range, or the paper is not in scope.
        """
        if not 1 <= k <= MOST_PASSAGES:
            raise BadInput(f"{k} passages: 1 to {MOST_PASSAGES} can be had")
        kept = self._all_passages if paper is None and kind is None else self._kept(kind, paper)
        found = self._library.search(query, k, engine, kept)
        self._record(engine, query, len(found), [passage.paper_id for passage in found])
        return found

    def sql(self, query: str) -> str:
        """Runs a SELECT over the papers of the scope; returns the rows or the error as text for an agent."""
        if self._sandbox is None:
            self._sandbox = self._library.databases.open(self._scope)
        result = self._sandbox.query(query)
        self._record("sql", query, len(result.get("rows", ())), [])
        return show_result(result)

    def full_text(self, paper: PaperId) -> str:
        """Returns headings and texts of a paper; empty if it has no processed data.

        Raises:
            BadInput: The paper is not in scope.
        """
        sections = self._library.sections(self._seen(paper))
        self._record("paper", paper, len(sections), [paper])
        return "\n\n".join(f"{title}\n{text}".strip() for title, text in sections)

    def view(self, paper: PaperId, page: int, box: Sequence[float] = ()) -> Image:
        """Renders a page as a picture; takes the arguments of `tasks.paperqa.pdf.render_page`.

        Raises:
            BadInput: The paper is not in scope, has no PDF here, or no such page or box.
        """
        path = self._library.pdfs.get(self._seen(paper))
        if path is None:
            raise BadInput(f"the library has no PDF of paper {paper}: read its text instead")
        image = render_page(path, page, box)
        self._record("page", f"{paper} {page} {list(box)}", 1, [paper])
        return image

    def _kept(self, kind: PassageKind | None, paper: PaperId | None) -> NDArray[np.bool_]:
        return self._library.passages_of(self._scope if paper is None else [self._seen(paper)], kind)

    @cached_property
    def _all_passages(self) -> NDArray[np.bool_]:
        return self._library.passages_of(self._scope)

    def _seen(self, paper: PaperId) -> PaperId:
        if paper not in self._scope:
            raise BadInput(f"there is no paper {paper[:60]}")
        return paper

    def _record(self, tool: str, request: str, returned: int, papers: list[PaperId]) -> None:
        self.lookups.append(Lookup(len(self.lookups) + 1, tool, request, returned, list(dict.fromkeys(papers))))

    def close(self) -> None:
        """Ends the processes that the desk has started."""
        if self._sandbox is not None:
            self._sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _scope(question: Question, library: PaperLibrary) -> frozenset[PaperId]:
    if not question.anchor_pdf and not question.conference:
        return frozenset(library.cards)
    venues = {name.lower() for name in question.conference}
    named = {paper for paper, card in library.cards.items() if card.conference in venues}
    return frozenset(named | (set(question.anchor_pdf) & library.cards.keys()))
