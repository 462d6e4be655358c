"""Stage `ann_recall`: measures the recall of an approximate index on the edition's own topics, under their filters."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import Field

from schemas.settings import Settings, TopicSubset
from schemas.topic import Topic
from tasks.index.ann import DEPTH, SHARES, ann
from tasks.index.candidates import Mask
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import open_encoder
from tasks.index.ranked import Ranked
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.retrieval.documents import load_catalogue
from tasks.retrieval.retriever import NEVER, Allowed, Catalogue
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

RECALL = "recall.json"
TOGETHER = 32
"""Topics whose filters are held at once."""

SPAN = 5
"""Years of a group of horizons."""

FIRST_DAY = date(1970, 1, 1)


class AnnRecallSettings(Settings):
    """On how many topics recall is measured."""

    topics: int = Field(default=200, ge=1, description="Size of the sample, stratified by field of study and year.")


class _Measured(NamedTuple):
    """Recall under one filter of a topic: share of the documents allowed, recall, hits, and hits there could be."""

    allowed: float
    recall: float
    hits: int
    possible: int


@stage("ann_recall", version=1, settings=AnnRecallSettings, after="ann")
def ann_recall(work: Workspace[AnnRecallSettings]) -> None:
    """Searches the titles of topics in an approximate index and exactly, and records the mean recall@100.

    Inputs: `ann`, `embeddings`, `topics`, `documents`, `surveys`. Output: `recall.json`, with rows by horizon, where
    each topic has its own leakage filter, and by share, where all topics may see the oldest documents: all, a tenth, or
    a fiftieth of them.
    """
    for shard in work.pending(["recall"]):
        with shard:
            embeddings, built = work.dataset("embeddings"), work.dataset("ann")
            approximate, exact = DenseIndex.open_ann(built), DenseIndex.open(embeddings, device="cpu")
            subset = TopicSubset(sample_topics=work.settings.topics)
            rows = evaluated_topics(work.dataset("topics"), subset).select("topic_id", "title", "horizon").iter_rows()
            topics = [Topic(*row) for row in rows]
            encoder = open_encoder(embeddings, work.resources.device, work.resources.batch_size)
            queries = np.array([encoder.encode_queries([topic.title.lower().strip()])[0] for topic in topics])
            catalogue = load_catalogue(work.dataset("documents"), work.dataset("surveys"))
            facts = catalogue.take(catalogue.rows(exact.ids))
            measure = _Comparison(approximate, exact, queries.reshape(len(topics), exact.dimensions))
            record = {
                "kind": built.manifest.settings(ann).kind,
                "depth": DEPTH,
                "topics": len(topics),
                "by_horizon": list(_by_horizon(measure, topics, facts)),
                "by_share": [
                    _summary(f"{share:.0%}", measure.under(repeat(_oldest(facts, share)))) for share in SHARES
                ],
            }
            shard.file(RECALL).write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2))
            shard.counts.read = shard.counts.kept = len(topics)


class _Comparison(NamedTuple):
    """Both indexes over the same documents, and the queries."""

    approximate: DenseIndex
    exact: DenseIndex
    queries: NDArray[np.float32]

    def under(self, kept: Iterable[Mask]) -> list[_Measured]:
        """Searches every query under its filter, `TOGETHER` at a time; both indexes have the same rows."""
        filters, measured = iter(kept), list[_Measured]()
        for start in range(0, len(self.queries), TOGETHER):
            queries = self.queries[start : start + TOGETHER]
            masks = list(islice(filters, len(queries)))
            found = self.approximate.search_many(queries, DEPTH, masks)
            best = self.exact.search_many(queries, DEPTH, masks)
            measured += [_compare(*results) for results in zip(found, best, masks, strict=True)]
        return measured


def _compare(found: Ranked, best: Ranked, kept: Mask) -> _Measured:
    allowed = int(np.count_nonzero(kept))
    same = len(np.intersect1d(found.ids, best.ids))
    recall = same / len(best.ids) if len(best.ids) else 1.0
    return _Measured(allowed / max(1, len(kept)), recall, len(found.ids), min(DEPTH, allowed))


def _by_horizon(measure: _Comparison, topics: Sequence[Topic], facts: Catalogue) -> Iterator[dict[str, object]]:
    """Yields a summary for the topics whose horizons lie in the same years."""
    rows = np.arange(len(facts.ids))
    filters = (Allowed(facts, topic.topic_id, topic.horizon).judge(rows, facts).kept for topic in topics)
    measured = measure.under(filters)
    firsts = np.array([topic.horizon.year // SPAN * SPAN for topic in topics])
    for first in np.unique(firsts).tolist():
        group = [measured[place] for place in np.flatnonzero(firsts == first)]
        yield _summary(f"{first}-{first + SPAN - 1}", group)


def _oldest(facts: Catalogue, share: float) -> Mask:
    """Returns the documents that are older than a day before which a share of them was published."""
    if share >= 1:
        return np.ones(len(facts.ids), np.bool_)
    day = np.quantile(np.minimum(facts.days, (date.max - FIRST_DAY) // timedelta(days=1)), share)
    return (facts.days <= day) & (facts.days < NEVER)


def _summary(name: str, measured: Sequence[_Measured]) -> dict[str, object]:
    return {
        "name": name,
        "topics": len(measured),
        "allowed": float(np.mean([found.allowed for found in measured])) if measured else None,
        "recall": float(np.mean([found.recall for found in measured])) if measured else None,
        "lacking_hits": sum(found.possible - found.hits for found in measured),
    }
