"""An agent that uses each retrieval action once and answers with the best sentence it saw."""

import json

from tasks.demo.standin.rule import Asked, ToolCall, answers
from tasks.demo.standin.rules.airqa_answer import best_answer
from tasks.demo.standin.words import subject_words


@answers("airqa_agent")
def airqa_agent(asked: Asked) -> str | ToolCall:
    """Queries the database first if it can, then searches passages, then answers: one action per turn."""
    allowed = asked.messages[0].text
    ways = [name for name in _LOOKS if f"- {name}(" in allowed]
    seen = asked.all("observation")
    if len(seen) < len(ways):
        return _act(asked, ways[len(seen)], _LOOKS[ways[len(seen)]](asked.first("question")))
    found = best_answer(asked, "\n".join(seen))
    return _act(asked, "generate_answer", {"answer": found or "unknown"})


def _sql(question: str) -> dict[str, str]:
    words = [word for word in subject_words(question) if word.isalnum()][:3]
    tests = " OR ".join(f"text ILIKE '%{word}%'" for word in words) or "true"
    return {"sql": f"SELECT paper_id, title, text FROM sections WHERE {tests} ORDER BY paper_id, place LIMIT 5"}


_LOOKS = {
    "retrieve_from_database": _sql,
    "retrieve_from_vectorstore": lambda question: {"query": question, "collection": "bm25"},
    "classic_retrieve": lambda question: {"query": question},
}


def _act(asked: Asked, name: str, arguments: dict[str, str]) -> str | ToolCall:
    if name in asked.tools:
        return ToolCall(name, dict(arguments))
    return f"I will act.\n{json.dumps({'action': name, 'arguments': arguments}, ensure_ascii=False)}"
