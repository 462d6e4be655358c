"""Self-RAG with prompts: a model rewrites its query from the papers that it finds, and rates the query itself."""

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.llm import Demand, Reply
from schemas.topic import Topic
from tasks.llm.asker import Asker
from tasks.ranking.agents.queries import clean_query, passage, title_query, zero_shot_query
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.retrieval.desk import ResearchDesk

ROUNDS = 3
DOCUMENTS = 5


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Need(_Form):
    """Whether papers would help."""

    retrieval: Literal["yes", "no"]


class Relevance(_Form):
    """Whether a paper is relevant."""

    verdict: Literal["relevant", "irrelevant"]


class Rewrite(_Form):
    """A new query, and how useful the model takes it to be."""

    query: str = Field(min_length=1, max_length=2000)
    usefulness: int = Field(ge=1, le=5)


FormT = TypeVar("FormT", bound=_Form)


class _Failed(Exception):
    """A model call brought no answer at all."""


DEMAND = Demand(calls=14, read=7_100, written=150)


@baseline(
    "self_rag", "Searches once, for a query that a model improves with the papers it finds.", version=2, asks=DEMAND
)
def self_rag(topic: Topic, kit: Kit) -> Ranking:
    """Searches the primary engine for the query that the model rates best.

    The loop starts with the title and runs at most `ROUNDS` times. The model says whether it wants papers for the
    query; if so, it judges the best `DOCUMENTS` one by one and rewrites the query from the relevant ones, with a rating
    of 1 to 5. The loop goes on with the new query whatever its rating, and ends at a `no`, without relevant papers, and
    when the query does not change. Of queries with equal ratings the latest counts.

    A verdict that cannot be parsed counts as `no` or `irrelevant`. When a call fails before the first query is written,
    Zero-Shot's query is searched, or the title where that fails too. Both count as fallback.

    Source: Self-RAG (Asai et al., ICLR 2024), in ResearchArena (arXiv 2406.10291).

    Deviates: The model answers in words, not in reflection tokens, and writes one query, not several segments.
    """
    return _search_best(topic, kit, stop_early=False)


@baseline("self_rag_early", "As self_rag, but ends at the first query that the model rates worse.", asks=DEMAND)
def self_rag_early(topic: Topic, kit: Kit) -> Ranking:
    """As `self_rag`, but the loop also ends at a query whose rating is below that of the best one so far."""
    return _search_best(topic, kit, stop_early=True)


def _search_best(topic: Topic, kit: Kit, *, stop_early: bool) -> Ranking:
    loop = _Loop(topic.title, kit.desk, kit.model)
    query, problems = loop.run(stop_early=stop_early), loop.problems
    if not query:
        query, problem = zero_shot_query(kit.model, topic.title)
        problems += [problem] if problem else []
    hits = kit.desk.search(query or title_query(topic.title), kit.cutoff)
    return Ranking(hits, note="; ".join(problems) or None, fallback=bool(problems))


class _Loop:
    def __init__(self, title: str, desk: ResearchDesk, asker: Asker) -> None:
        self._title = title
        self._desk = desk
        self._asker = asker
        self.problems: list[str] = []

    def run(self, *, stop_early: bool) -> str:
        """Returns the query with the best rating, or an empty text when a call failed before there was one."""
        draft = best = title_query(self._title)
        mark = 0
        try:
            for _ in range(ROUNDS):
                rewrite = self._improve(draft)
                query = clean_query(rewrite.query) if rewrite else ""
                if rewrite is None or not query or (stop_early and rewrite.usefulness < mark):
                    break
                if rewrite.usefulness >= mark:
                    best, mark = query, rewrite.usefulness
                if query == draft:
                    break
                draft = query
        except _Failed:
            return best if mark else ""
        return best

    def _improve(self, draft: str) -> Rewrite | None:
        """Returns the rewritten query, or None when the model wants no papers or none of those found is relevant."""
        need = self._read("self_rag_need", self._asker.ask("self_rag_need", self._values(draft=draft), Need))
        if need is None or need.retrieval == "no":
            return None
        found = self._desk.read([hit.corpus_id for hit in self._desk.search(draft, DOCUMENTS)])
        documents = [text for text in map(passage, found) if text and self._relevant(text)]
        if not documents:
            return None
        values = self._values(draft=draft, documents=documents)
        rewrite = self._read("self_rag_rewrite", self._asker.ask("self_rag_rewrite", values, Rewrite))
        if rewrite is None:
            raise _Failed
        return rewrite

    def _relevant(self, document: str) -> bool:
        reply = self._asker.ask("self_rag_relevance", self._values(document=document), Relevance)
        verdict = self._read("self_rag_relevance", reply)
        return verdict is not None and verdict.verdict == "relevant"

    def _values(self, **values: object) -> dict[str, object]:
        return {"title": self._title, **values}

    def _read(self, prompt: str, reply: Reply[FormT]) -> FormT | None:
        """Returns the verdict, or None when it cannot be parsed.

        Raises:
            _Failed: The reply has no text.
        """
        if reply.outcome == "ok":
            return reply.answer
        self.problems.append(f"{prompt}: {reply.reason}")
        if not reply.text:
            raise _Failed
        return None
