"""Self-RAG with a Self-RAG model: reflection tokens, read from the probabilities that the endpoint returns.

The endpoint must return log-probabilities, continue an assistant turn that has begun, and show special tokens. vLLM
does all three when the request has the members in `SERVING` and `CONTINUING`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import orjson

from schemas.llm import Demand, Message, Parameters
from schemas.topic import Topic
from tasks.llm.asker import Asker
from tasks.llm.prompt import break_role_marks, load_prompt
from tasks.ranking.agents.queries import clean_query, passage, title_query, zero_shot_query
from tasks.ranking.baseline import Kit, Ranking, baseline

THRESHOLD = 0.2
"""Papers are searched when the model wants them with a higher probability than this."""

DOCUMENTS, BEAM, DEPTH = 5, 2, 6
DECISION_TOKENS = 8
WEIGHTS = {"relevant": 1.0, "supported": 1.0, "useful": 0.5}

RETRIEVE, NO_RETRIEVAL = "[Retrieval]", "[No Retrieval]"
RELEVANT, IRRELEVANT = "[Relevant]", "[Irrelevant]"
FULLY, PARTLY, UNSUPPORTED = "[Fully supported]", "[Partially supported]", "[No support / Contradictory]"
UTILITY = tuple(f"[Utility:{mark}]" for mark in range(1, 6))

SERVING: Mapping[str, Any] = {"skip_special_tokens": False}
CONTINUING: Mapping[str, Any] = {**SERVING, "add_generation_prompt": False, "continue_final_message": True}

_TOKEN = re.compile(r"\[(?:[A-Z][A-Za-z /]*|Utility:\d)\]|</?paragraph>|</s>")


class Step(NamedTuple):
    """One token of the reply, with the probabilities of the alternatives at its position."""

    token: str
    probabilities: Mapping[str, float]


class Draft(NamedTuple):
    """A query with its score."""

    query: str
    score: float


class _Failed(Exception):
    """A call gave no usable reply."""


@baseline(
    "self_rag_tokens",
    "As self_rag, with a Self-RAG model's reflection tokens and their probabilities.",
    version=2,
    asks=Demand(calls=8, read=1_800, written=150),
)
def self_rag_tokens(topic: Topic, kit: Kit) -> Ranking:
    """Searches the primary engine for the best of the queries that are written from single papers.

    A beam search over queries. It starts with the title. For each of the `BEAM` best drafts the model says whether it
    wants papers; from each of the best `DOCUMENTS` found it writes a new draft. The search ends when no draft wants
    papers, when none gets better, and after `DEPTH` rounds. When a call fails before there is a draft, Zero-Shot's
    query is searched, or the title where that fails too; both count as fallback.

    Source: Self-RAG (Asai et al., ICLR 2024): greedy decoding, threshold 0.2, 5 papers, beam 2, depth 6, weights 1, 1
    and 0.5, as in its published commands.

    Deviates: A segment is a whole query, so drafts are compared by their last segment and not by the sum over a text.
    """
    problems: list[str] = []
    try:
        query = _best(topic.title, kit, problems)
    except _Failed as error:
        query, problem = zero_shot_query(kit.model, topic.title)
        problems += [str(error), *([problem] if problem else [])]
    hits = kit.desk.search(query or title_query(topic.title), kit.cutoff)
    return Ranking(hits, note="; ".join(problems) or None, fallback=bool(problems))


def _best(title: str, kit: Kit, problems: list[str]) -> str:
    """Returns the query of the best draft, or the title's when the model wants no papers at all."""
    beam = [Draft("", -math.inf)]
    for _ in range(DEPTH):
        try:
            branches = [branch for draft in beam for branch in _branches(title, draft, kit)]
        except _Failed as error:
            if not beam[0].query:
                raise
            problems.append(str(error))
            break
        by_query: dict[str, Draft] = {}
        for draft in sorted([*beam, *branches], key=lambda draft: -draft.score):
            if draft.query:
                by_query.setdefault(draft.query, draft)
        grown = list(by_query.values())[:BEAM]
        if not grown or grown == beam:
            break
        beam = grown
    return beam[0].query or title_query(title)


def _branches(title: str, draft: Draft, kit: Kit) -> list[Draft]:
    """Returns a new draft for each paper that the old one finds, and none when it wants no papers."""
    if _share(_ask(kit.model, title, draft.query, None)[0].probabilities, RETRIEVE, NO_RETRIEVAL) <= THRESHOLD:
        return []
    found = kit.desk.search(draft.query or title_query(title), DOCUMENTS)
    passages = [text for text in map(passage, kit.desk.read([hit.corpus_id for hit in found])) if text]
    segments = [_ask(kit.model, title, draft.query, text) for text in passages]
    drafts = [Draft(query_of(steps), score_of(steps)) for steps in segments]
    return [branch for branch in drafts if branch.query]


def _ask(asker: Asker, title: str, draft: str, paper: str | None) -> Sequence[Step]:
    """Returns what the model writes after the instruction, or after a paper that it asked for."""
    prompt = load_prompt("self_rag_tokens")
    messages = prompt.render({"title": title, "draft": draft})
    if paper is not None:
        begun = f"{RETRIEVE}<paragraph>{plain_paragraph(paper)}</paragraph>"
        messages = (*messages, Message(role="assistant", content=begun))
    parameters = (
        Parameters(top_p=1, top_logprobs=20, max_tokens=DECISION_TOKENS, extra=dict(SERVING))
        if paper is None
        else Parameters(top_p=1, top_logprobs=20, extra=dict(CONTINUING))
    )
    reply = asker.converse(messages, prompt=prompt.ref, parameters=parameters)
    if reply.outcome != "ok":
        raise _Failed(f"self_rag_tokens: {reply.reason}")
    steps = read_steps(reply.raw)
    if not steps:
        raise _Failed("self_rag_tokens: the endpoint returns no token probabilities")
    return steps


def plain_paragraph(paper: str) -> str:
    """Returns a paper's text without anything that the model could take for a reflection token or a paragraph's end.

    The model was trained on plain text between the paragraph marks, so the delimiters of other prompts would be foreign
    to it; nothing in this text can end the paragraph.
    """
    return _TOKEN.sub(" ", break_role_marks(paper))


def read_steps(raw: bytes) -> list[Step]:
    """Returns tokens and probabilities of a completion, or nothing when it holds none that can be parsed."""
    try:
        match orjson.loads(raw):
            case {"choices": [{"logprobs": {"content": [*told]}}, *_]}:
                return [Step(str(step["token"]), _probabilities(step)) for step in cast("list[dict[str, Any]]", told)]
            case _:
                return []
    except (ValueError, TypeError, KeyError):
        return []


def _probabilities(step: Mapping[str, Any]) -> dict[str, float]:
    alternatives = [step, *(step.get("top_logprobs") or ())]
    return {str(told["token"]).strip(): math.exp(min(float(told["logprob"]), 0)) for told in alternatives}


def query_of(steps: Sequence[Step]) -> str:
    """Returns the query without reflection tokens."""
    return clean_query(_TOKEN.sub(" ", "".join(step.token for step in steps)))


def score_of(steps: Sequence[Step]) -> float:
    """Returns the weighted sum of a segment's relevance, support (half for partial) and usefulness (from -1 to 1)."""
    relevance = _place(steps, (RELEVANT, IRRELEVANT))
    support = _place(steps, (FULLY, PARTLY, UNSUPPORTED))
    utility = _place(steps, UTILITY)
    supported = _share(support, FULLY, PARTLY, UNSUPPORTED) + 0.5 * _share(support, PARTLY, FULLY, UNSUPPORTED)
    useful = sum(_share(utility, mark, *UTILITY) * (place - 2) / 2 for place, mark in enumerate(UTILITY))
    return (
        WEIGHTS["relevant"] * _share(relevance, RELEVANT, IRRELEVANT)
        + WEIGHTS["supported"] * supported
        + WEIGHTS["useful"] * useful
    )


def _place(steps: Sequence[Step], tokens: Sequence[str]) -> Mapping[str, float]:
    """Returns the probabilities at the first of these tokens, and nothing when none was written."""
    return next((step.probabilities for step in steps if step.token.strip() in tokens), {})


def _share(probabilities: Mapping[str, float], token: str, *others: str) -> float:
    """Returns the probability of a token relative to itself and the others; 0 when all of them have none."""
    total = sum(probabilities.get(name, 0.0) for name in {token, *others})
    return probabilities.get(token, 0.0) / total if total else 0.0
