"""STORM over many topics on an endpoint that takes a second for each call: no topic waits for another."""

import hashlib
import re
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from schemas.identifiers import CorpusId
from schemas.llm import ModelName
from schemas.llm_settings import LlmAccess
from schemas.settings import Resources, Settings
from schemas.tables.runs import OUTCOMES, OutcomeRow
from tasks.llm.asker import Asker
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import Subjects, answer_subjects
from tasks.ranking.agents.storm import THANKS, StormSettings, research
from tasks.retrieval.documents import Document
from tasks.store.workspace import Workspace
from tests.llm.conftest import SECRET, settings_for
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion

TOPICS, CONCURRENCY, CALL_S = 200, 64, 1.0
MODEL = ModelName(provider="bench", model="m")
SAYS = {
    "Choose a team": "1. Ecologist: food\n2. Sailor: wind\n3. Birder: birds\n4. Pilot: height\n5. Cook: taste",
    "Turn a question": "- gulls\n- terns\n- wind",
    "Answer a question": "They fly [1].",
    "outline of a survey": "# A\n## B",
}

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1500)]


def says(text: str) -> str:
    """Answers a prompt of STORM's; conversations end after different numbers of questions."""
    for begin, answer in SAYS.items():
        if begin in text:
            return answer
    return THANKS if hashlib.sha256(text.encode()).digest()[0] < 30 else f"Why {len(text)}?"


def search(query: str, number: int) -> list[Document]:
    """Documents for every query, without an index."""
    return [Document(CorpusId(place), f"{query} {place}", "About wind and gulls.") for place in range(number)]


def test_200_topics_take_little_more_than_the_longest_chain_and_the_work(
    server: ScriptedServer, tmp_path: Path
) -> None:
    calls: Counter[str] = Counter()

    def script(seen: Seen, number: int) -> Answer:
        calls[re.findall(r"Subject \d+", str(seen.json["messages"]))[0]] += 1
        told = completion(says(seen.last))
        return Answer(told.body, told.status, told.headers, delay_s=CALL_S)

    def answer(topic: int, asker: Asker | None) -> SubjectRows:
        assert asker
        found = research(f"Subject {topic}", search, asker, StormSettings())
        return SubjectRows([OutcomeRow(topic, "scored", None, fallback=bool(found.problems))], "scored")

    server.play(script)
    settings = settings_for(server, concurrency=CONCURRENCY, provider="bench", cache=tmp_path / "calls.db")
    work = Workspace("run", tmp_path, Settings(), {}, Resources(), llm=LlmAccess(settings, SECRET))
    tables = {"part": OUTCOMES}
    begun = time.perf_counter()
    answer_subjects(
        work,
        Subjects(range(TOPICS), 16, str, tables, lambda: nullcontext(answer), model=MODEL, key=("topic_id",)),
    )
    took = time.perf_counter() - begun
    longest, made = max(calls.values()) * CALL_S, calls.total() * CALL_S
    least = longest + made / CONCURRENCY
    print(  # noqa: T201
        f"\n{calls.total()} calls of {TOPICS} topics in {took:.0f} s; longest chain {longest:.0f} s plus work/"
        f"{CONCURRENCY} {made / CONCURRENCY:.0f} s: {took / least:.2f}",
        end="",
    )
    assert work.counts().kept == TOPICS
    assert took <= 1.3 * least
