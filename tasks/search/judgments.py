"""The `judge` stage: each pooled paper is judged once for its query, whichever engines returned it."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from schemas.errors import OverBudget
from schemas.llm import UNANSWERED, Estimate
from schemas.llm_settings import LlmAccess
from schemas.search import JudgeSettings
from schemas.tables.judgments import JUDGMENTS, SEARCH_POOL, JudgmentRow, SearchPoolRow
from tasks.llm.asker import Asker, open_door, require_asker
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import Subjects, answer_subjects
from tasks.search.judge import Judge, Verdict, find_judge
from tasks.search.pool import Pool, Pooled, build_pool
from tasks.search.queries import read_queries
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_rows
from tasks.store.shard import Shard
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

SHARD_PAPERS = 256
"""Papers of a shard."""

RESULTS = "results:"
"""Prefix of the inputs with the engines' results; the engine's tag follows."""

_OUTCOMES = {"ok": "scored", **UNANSWERED}

NO_VERDICT = (None, None, None)

NO_NOTES = {"judgments asked": 0, "judgments remembered": 0, "judgments repaired": 0}


class Attempt(NamedTuple):
    """One judging of one paper."""

    pooled: Pooled
    number: int


@stage("judge", version=2, settings=JudgeSettings, after="search_results")
def judge(work: Workspace[JudgeSettings]) -> None:
    """Writes JUDGMENTS and, as side tables, SEARCH_POOL and MODEL_CALLS; counts how many judgments were asked for.

    Inputs: `queries`, and `results:<tag>` for every engine.

    Papers are judged in a shuffled order, so that a cap or a kill leaves out papers of all queries alike. A judgment
    without a valid score is an outcome, never a 0.

    Raises:
        StageFailed: The registered judge has another version than the settings say.
        UsageError: No endpoint is set up, or another one than the settings name.
    """
    settings = work.settings
    registered = registered_judge(settings)
    texts = {query.query_key: query.text for query in read_queries(work.dataset("queries"))}
    pool = pool_of(settings, {tag: work.dataset(RESULTS + tag) for tag in settings.engines})
    if "pool" not in work.finished():
        with Shard(work.folder, "pool") as shard:
            write_rows(shard.file("pool-00000.parquet"), SEARCH_POOL, [SearchPoolRow(*place) for place in pool.places])
            shard.counts.dropped["repeated in one list"] = pool.repeated
    papers = shuffled(pool.papers, settings.seed)
    subjects = Subjects(
        items=[Attempt(pooled, number) for pooled in papers for number in range(settings.attempts)],
        shard_size=SHARD_PAPERS * settings.attempts,
        name=lambda attempt: f"{attempt.pooled.query_key} {attempt.pooled.doc_key}",
        tables={"part": JUDGMENTS},
        open=lambda: nullcontext(_Judging(registered, settings, texts).answer),
        model=settings.model,
        least_shards=0,
        key=("query_key", "doc_key"),
    )
    answer_subjects(work, subjects)


def registered_judge(settings: JudgeSettings) -> Judge:
    """Returns the judge that the settings name.

    Raises:
        UsageError: No judge has that name.
        StageFailed: The judge has another version.
    """
    judge = find_judge(settings.judge)
    require_version(f"stage judge: judge {judge.name}", judge.version, settings.judge_version)
    return judge


def pool_of(settings: JudgeSettings, results: Mapping[str, Dataset]) -> Pool:
    """Builds the pool that the settings ask for, from datasets of stage `search_results` by engine."""
    return build_pool({tag: results[tag] for tag in settings.engines}, settings.depth)


def estimate_judging(
    settings: JudgeSettings, queries: Dataset, results: Mapping[str, Dataset], access: LlmAccess | None
) -> Estimate:
    """Estimates what judging costs, without asking anything; judgments in the cache are free.

    Raises:
        UsageError: No endpoint is set up, or another one than the settings name.
        BadInput: No price is known for the model.
    """
    registered = registered_judge(settings)
    texts = {query.query_key: query.text for query in read_queries(queries)}
    papers = [pooled for pooled in pool_of(settings, results).papers if any(pooled.paper)]
    requests = (
        registered.request(texts[pooled.query_key], pooled.paper, settings.model, attempt, settings.thinking)
        for pooled in papers
        for attempt in range(settings.attempts)
    )
    with open_door(access, settings.model) as door:
        return door.door.estimate(requests)


def shuffled(papers: Sequence[Pooled], seed: int) -> list[Pooled]:
    """Returns papers in an order that depends on the seed and on each paper alone, not on the other papers."""

    def place(pooled: Pooled) -> bytes:
        return hashlib.sha256(f"{seed}\n{pooled.query_key}\n{pooled.doc_key}".encode()).digest()

    return sorted(papers, key=place)


class _Judging(NamedTuple):
    """What judging a paper takes."""

    judge: Judge
    settings: JudgeSettings
    texts: Mapping[str, str]

    def answer(self, attempt: Attempt, asker: Asker | None) -> SubjectRows:
        """Judges one paper once."""
        pooled = attempt.pooled
        if not any(pooled.paper):
            return self._rows(attempt, "empty", note="neither title nor abstract")
        query, chosen = self.texts[pooled.query_key], self.settings
        asked = self.judge.request(query, pooled.paper, chosen.model, attempt.number, chosen.thinking)
        try:
            reply = require_asker(asker, "judge").converse(
                asked.messages, asked.answer, prompt=asked.prompt, parameters=asked.parameters, attempt=attempt.number
            )
        except OverBudget as error:
            return self._rows(attempt, "over_budget", note=str(error))
        verdict = NO_VERDICT if reply.answer is None else self.judge.read(reply.answer)
        answered = self._rows(attempt, _OUTCOMES[reply.outcome], verdict, reply.reason or None)
        counted = "judgments asked" if reply.source == "provider" else "judgments remembered"
        return answered._replace(notes={**NO_NOTES, counted: 1, "judgments repaired": int(reply.repaired)})

    def _rows(
        self,
        attempt: Attempt,
        outcome: str,
        verdict: Verdict | tuple[None, None, None] = NO_VERDICT,
        note: str | None = None,
    ) -> SubjectRows:
        pooled = attempt.pooled
        score, confidence, reason = verdict
        row = JudgmentRow(
            query_key=pooled.query_key,
            doc_key=pooled.doc_key,
            judge=self.settings.tag,
            model=self.settings.model.model,
            attempt=attempt.number,
            outcome=outcome,
            score=score,
            confidence=confidence,
            reason=reason,
            note=note,
            title_only=not pooled.paper.abstract,
            title=pooled.paper.title,
            abstract=pooled.paper.abstract or None,
        )
        return SubjectRows([row], outcome, NO_NOTES)
