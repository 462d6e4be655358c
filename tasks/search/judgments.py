"""The `judge` stage: every pooled paper is judged once for its query, whoever returned it."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.errors import OverBudget
from schemas.llm import Estimate, LlmAccess
from schemas.search import JudgeSettings
from schemas.table import AnyTable
from schemas.tables.judgments import JUDGMENTS, SEARCH_POOL
from tasks.llm.asker import Asker, in_threads, open_door, write_calls
from tasks.llm.blocking import BlockingDoor
from tasks.search.judge import STAGE, Judge, Verdict, find_judge
from tasks.search.pool import Pool, Pooled, build_pool
from tasks.search.queries import read_queries
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.shard import Shard, in_shards
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

SHARD_PAPERS = 256
"""Papers of a shard."""

RESULTS = "results:"
"""Inputs with engines' results are named by this and the engine's tag."""

_OUTCOMES = {"ok": "scored", "failed": "failed", "refused": "refused"}

Row = dict[str, Any]


class Judged(NamedTuple):
    """A judgment and what was asked for it; `source` is where the reply came from, None when nothing was asked."""

    row: Row
    asker: Asker
    source: str | None
    repaired: bool = False


@stage("judge", version=1, settings=JudgeSettings, after="search_results")
def judge(work: Workspace[JudgeSettings]) -> None:
    """Writes JUDGMENTS and, as side tables, SEARCH_POOL and MODEL_CALLS; counts how many judgments were asked for.

    Inputs: `queries`, and `results:<tag>` for every engine.

    Papers are judged in an order that a seed shuffles, so that what a cap or a kill leaves out is no part of the
    queries. A judgment without a valid score is an outcome, never a 0.

    Raises:
        StageFailed: The registered judge has another version than the settings say.
        UsageError: No endpoint is set up, or another one than the settings name.
    """
    settings = work.settings
    registered = registered_judge(settings)
    texts = {query.query_key: query.text for query in read_queries(work.dataset("queries"))}
    pool = pool_of(settings, {tag: work.dataset(RESULTS + tag) for tag in settings.engines})
    order = shuffled(pool.papers, settings.seed)
    shards = in_shards(order, SHARD_PAPERS)
    if "pool" not in work.finished():
        with Shard(work.folder, "pool") as shard:
            _write(shard, "pool", SEARCH_POOL, [place._asdict() for place in pool.places])
            shard.counts.dropped["repeated in one list"] = pool.repeated
    if work.finished() >= set(shards):
        return
    with open_door(work.llm, settings.model) as door:
        for shard in work.pending(list(shards)):
            with shard:
                _judge_shard(shard, _Bench(registered, settings, texts, door), shards[shard.name], work.llm)


def registered_judge(settings: JudgeSettings) -> Judge:
    """The judge of the settings.

    Raises:
        UsageError: There is none of that name.
        StageFailed: It has another version.
    """
    judge = find_judge(settings.judge)
    require_version(f"stage judge: judge {judge.name}", judge.version, settings.judge_version)
    return judge


def pool_of(settings: JudgeSettings, results: Mapping[str, Dataset]) -> Pool:
    """The pool that the settings ask for, from datasets of stage `search_results` by engine."""
    return build_pool({tag: results[tag] for tag in settings.engines}, settings.depth)


def estimate_judging(
    settings: JudgeSettings, queries: Dataset, results: Mapping[str, Dataset], access: LlmAccess | None
) -> Estimate:
    """What judging would cost, without asking anything; judgments that are remembered are free.

    Raises:
        UsageError: No endpoint is set up, or another one than the settings name.
        BadInput: No price is known for the model.
    """
    registered = registered_judge(settings)
    texts = {query.query_key: query.text for query in read_queries(queries)}
    papers = [pooled for pooled in pool_of(settings, results).papers if any(pooled.paper)]
    requests = (
        registered.request(texts[pooled.query_key], pooled.paper, settings.model, attempt)
        for pooled in papers
        for attempt in range(settings.attempts)
    )
    with open_door(access, settings.model) as door:
        return door.door.estimate(requests)


def shuffled(papers: Sequence[Pooled], seed: int) -> list[Pooled]:
    """Papers in an order that depends on the seed and on each paper alone, not on which others there are."""

    def place(pooled: Pooled) -> bytes:
        return hashlib.sha256(f"{seed}\n{pooled.query_key}\n{pooled.doc_key}".encode()).digest()

    return sorted(papers, key=place)


class _Bench(NamedTuple):
    """What judging one paper needs."""

    judge: Judge
    settings: JudgeSettings
    texts: Mapping[str, str]
    door: BlockingDoor

    def judge_paper(self, pooled: Pooled) -> list[Judged]:
        """Every attempt at one paper."""
        return [self._attempt(pooled, attempt) for attempt in range(self.settings.attempts)]

    def _attempt(self, pooled: Pooled, attempt: int) -> Judged:
        asker = Asker(self.door, STAGE, self.settings.model, f"{pooled.query_key} {pooled.doc_key}")
        if not any(pooled.paper):
            return Judged(self._row(pooled, attempt, "empty", note="neither title nor abstract"), asker, None)
        asked = self.judge.request(self.texts[pooled.query_key], pooled.paper, self.settings.model, attempt)
        try:
            reply = asker.converse(
                asked.messages, asked.answer, prompt=asked.prompt, parameters=asked.parameters, attempt=attempt
            )
        except OverBudget as error:
            return Judged(self._row(pooled, attempt, "over_budget", note=str(error)), asker, None)
        verdict = None if reply.answer is None else self.judge.read(reply.answer)
        row = self._row(pooled, attempt, _OUTCOMES[reply.outcome], verdict, reply.reason or None)
        return Judged(row, asker, reply.source, reply.repaired)

    def _row(
        self, pooled: Pooled, attempt: int, outcome: str, verdict: Verdict | None = None, note: str | None = None
    ) -> Row:
        score, confidence, reason = verdict or (None, None, None)
        return {
            "query_key": pooled.query_key,
            "doc_key": pooled.doc_key,
            "judge": self.settings.tag,
            "model": self.settings.model.model,
            "attempt": attempt,
            "outcome": outcome,
            "score": score,
            "confidence": confidence,
            "reason": reason,
            "note": note,
            "title_only": not pooled.paper.abstract,
            "title": pooled.paper.title,
            "abstract": pooled.paper.abstract or None,
        }


def _judge_shard(shard: Shard, bench: _Bench, papers: Sequence[Pooled], access: LlmAccess | None) -> None:
    judged = [one for several in in_threads(bench.judge_paper, papers, access) for one in several]
    _write(shard, "part", JUDGMENTS, [one.row for one in judged])
    write_calls(shard.file(f"calls-{shard.name}.parquet"), [one.asker for one in judged])
    counts = shard.counts
    outcomes = Counter(one.row["outcome"] for one in judged)
    counts.read, counts.kept, counts.failed = len(judged), outcomes.pop("scored", 0), outcomes.pop("failed", 0)
    counts.dropped.update(outcomes)
    counts.notes.update(_sources(judged))


def _sources(judged: Sequence[Judged]) -> Iterator[tuple[str, float]]:
    sources = Counter(one.source for one in judged)
    yield "judgments asked", sources["provider"]
    yield "judgments remembered", sources["cache"] + sources["replay"]
    yield "judgments repaired", sum(one.repaired for one in judged)


def _write(shard: Shard, prefix: str, table: AnyTable, rows: list[Row]) -> None:
    name = "00000" if prefix == "pool" else shard.name
    write_table(shard.file(f"{prefix}-{name}.parquet"), table, pa.Table.from_pylist(rows, table.arrow))
