"""STORM's research of a subject: simulated people question an expert who searches; an outline is written from that."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import Field

from schemas.errors import BadInput
from schemas.outline import parse_outline
from schemas.settings import Settings
from tasks.llm.asker import Asker
from tasks.llm.prompt import Trusted
from tasks.ranking.agents.queries import first_words, listed_queries, passage
from tasks.ranking.agents.reading import ask_and_parse
from tasks.retrieval.documents import Document

THANKS = "Thank you, I have no further questions."
"""A question that contains this ends the conversation."""

SORRY = "I am sorry, I have found nothing on this."
"""The expert's answer when no document was found."""

EVERYBODY = "Generalist: the basic facts of the subject, for readers who are new to it."
"""The persona that always comes first."""

ANSWERS_SHOWN = 4
HISTORY_WORDS, SNIPPET_WORDS, OUTLINE_WORDS = 2500, 1000, 5000

T = TypeVar("T")

Search = Callable[[str, int], Sequence[Document]]
"""Returns the best documents for a query, at most the given number."""

_PERSON = re.compile(r"^\s*\d+\.\s+(.*\S)", re.MULTILINE)
_CITATION = re.compile(r"\s*\[\d+(?:\s*[,;-]\s*\d+)*\]")


class StormSettings(Settings):
    """How long the research is."""

    turns: int = Field(default=5, ge=1, description="Questions that a person asks at most.")
    perspectives: int = Field(default=5, ge=0, description="People besides the generalist.")
    queries: int = Field(default=5, ge=1, description="Queries a question.")
    results: int = Field(default=3, ge=1, description="Documents a query.")
    related: int = Field(default=5, ge=0, description="Related titles that people are chosen from; 0: none.")


class Turn(NamedTuple):
    """A question, the documents of each of its queries, and the answer."""

    question: str
    found: tuple[tuple[int, ...], ...]
    answer: str


class Research(NamedTuple):
    """The result of the research.

    Attributes:
        people: Personas that asked, the generalist first.
        conversations: The turns of each person, in order.
        outline: Markdown headings.
        problems: Failed model calls and unusable answers, in order.
    """

    people: tuple[str, ...]
    conversations: tuple[tuple[Turn, ...], ...]
    outline: str
    problems: tuple[str, ...]

    def history(self, *, by_turn: bool = False) -> list[int]:
        """Returns the documents in the order in which they were first found: by person, turn, query and rank.

        Args:
            by_turn: Order by turn first: the first turns of all people come before any second turn.
        """
        turns = [(place, turn) for talk in self.conversations for place, turn in enumerate(talk)]
        if by_turn:
            turns.sort(key=lambda placed: placed[0])
        return list(dict.fromkeys(corpus_id for _, turn in turns for ids in turn.found for corpus_id in ids))


def research(title: str, search: Search, asker: Asker, settings: StormSettings) -> Research:
    """Researches a subject. Where a model call fails, research goes on without it and `problems` says so.

    Args:
        title: The subject.
        search: Finds documents.
        asker: Asks the model, with temperature 0 and seed 42.
        settings: How long the research is.

    Source:
        STORM (Shao et al., NAACL 2024), with the settings of its experiments.

    Deviates: People are chosen from the titles of documents found, not from tables of contents of an encyclopedia.
    Conversations are held one after the other and queries keep their order, so that the history is the same every
    time; in the original it depends on which thread ends first.
    """
    return _Researcher(title, search, asker, settings).work()


class _Researcher:
    def __init__(self, title: str, search: Search, asker: Asker, settings: StormSettings) -> None:
        self._title = title
        self._search = search
        self._asker = asker
        self._settings = settings
        self._problems: list[str] = []

    def work(self) -> Research:
        people = [EVERYBODY, *self._people()]
        conversations = tuple(tuple(self._converse(person)) for person in people)
        outline = self._outline([turn for talk in conversations for turn in talk])
        return Research(tuple(people), conversations, outline, tuple(self._problems))

    def _ask(self, prompt: str, read: Callable[[str], T], **values: Any) -> T | None:
        """The parsed reply, or None with the problem recorded when the reply has no usable content."""
        found, problem = ask_and_parse(self._asker, prompt, {"title": self._title, **values}, read)
        if problem:
            self._problems.append(problem)
        return found

    def _people(self) -> list[str]:
        number, related = self._settings.perspectives, self._settings.related
        if not number:
            return []
        found = self._search(self._title, related) if related else ()
        titles = [document.title for document in found if document.title]
        people = self._ask("storm_personas", _read_people, related_titles=titles, number=number)
        return (people or [])[:number]

    def _converse(self, person: str) -> Iterator[Turn]:
        turns: list[Turn] = []
        while len(turns) < self._settings.turns:
            values: dict[str, Any] = {"persona": person, "exchanges": _recent(turns), "thanks": Trusted(THANKS)}
            question = self._ask("storm_question", str, **values)
            if not question or THANKS.casefold() in question.casefold():
                return
            turns.append(self._consult(question))
            yield turns[-1]

    def _consult(self, question: str) -> Turn:
        """Lets the expert search for a question, and answer it from the passages found alone."""
        number = self._settings.queries
        queries = (self._ask("storm_queries", _read_queries, question=question, number=number) or [])[:number]
        found = [self._search(query, self._settings.results) for query in queries]
        passages = {document.corpus_id: passage(document) for documents in found for document in documents}
        snippets = _limit_words([text for text in passages.values() if text], SNIPPET_WORDS)
        answer = self._ask("storm_answer", str, question=question, snippets=snippets) if snippets else None
        ids = tuple(tuple(int(document.corpus_id) for document in documents) for documents in found)
        return Turn(question, ids, answer or SORRY)

    def _outline(self, turns: Sequence[Turn]) -> str:
        draft = self._ask("storm_outline", _read_outline)
        if draft and turns:
            values: dict[str, Any] = {"outline": draft, "exchanges": _without_citations(turns)}
            draft = self._ask("storm_outline_improved", _read_outline, **values) or draft
        return draft or f"# {self._title}"


def _read_people(text: str) -> list[str]:
    if people := _PERSON.findall(text):
        return people
    raise BadInput("there is no numbered list in the answer")


def _read_queries(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.lstrip().startswith("-")]
    if queries := listed_queries(lines, len(lines)):
        return queries
    raise BadInput("there is no line that begins with a dash in the answer")


def _read_outline(text: str) -> str:
    parse_outline(text)
    return text


def _recent(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Returns all questions with the last answers; where the answers are too long, the newest are kept."""
    left = HISTORY_WORDS - sum(len(turn.question.split()) for turn in turns)
    newest = [turn.answer for turn in reversed(turns)][:ANSWERS_SHOWN]
    answers = _limit_words(newest, max(left, 0))
    shown = [*answers, *[""] * (len(turns) - len(answers))][::-1]
    return [{"question": turn.question, "answer": answer} for turn, answer in zip(turns, shown, strict=True)]


def _without_citations(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Returns questions and answers without citations, for the outline."""
    texts = _limit_words(
        [text for turn in turns for text in (turn.question, _CITATION.sub("", turn.answer))], OUTLINE_WORDS
    )
    return [{"question": q, "answer": a} for q, a in zip(texts[::2], texts[1::2], strict=False)]


def _limit_words(texts: Sequence[str], words: int) -> list[str]:
    """Returns the first texts with at most `words` words in all; the text that exceeds the limit is cut."""
    kept: list[str] = []
    for text in texts:
        if words <= 0:
            break
        kept.append(first_words(text, words))
        words -= len(text.split())
    return kept
