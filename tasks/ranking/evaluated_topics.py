"""Reads the topics that systems answer and are scored on, and their relevance labels."""

import hashlib
from collections import Counter
from collections.abc import Sequence

import polars as pl

from schemas.settings import TopicSubset
from tasks.store.dataset import Dataset

KEPT = "kept"


def evaluated_topics(
    topics: Dataset, subset: TopicSubset | None = None, mindmaps: Dataset | None = None
) -> pl.DataFrame:
    """Returns the rows of table `topics` with outcome `kept`, ascending by topic_id.

    Args:
        topics: Dataset of stage `topics`.
        subset: The first topics, or a sample of them; None: all.
        mindmaps: Keeps only those topics that have a mind-map in this dataset; a sample is drawn from them. None: all.
    """
    kept = pl.read_parquet(topics.files()).filter(pl.col("outcome") == KEPT).sort("topic_id")
    if subset and subset.limit_topics is not None:
        kept = kept.head(subset.limit_topics)
    if mindmaps is not None:
        drawn = pl.read_parquet(mindmaps.files(), columns=["topic_id"])
        kept = kept.filter(pl.col("topic_id").is_in(drawn["topic_id"].implode()))
    if subset and subset.sample_topics is not None:
        kept = sample_topics(kept, subset.sample_topics, subset.seed)
    return kept


def sample_topics(topics: pl.DataFrame, size: int, seed: int) -> pl.DataFrame:
    """Returns a random sample of topics, stratified by field of study and year, in the order of the topics.

    A topic of several fields counts in the one that most topics have. Topics are ordered by field, year and a hash of
    seed and id, and taken at equal distances from a random start. So a field, and a year of a field, has its share of
    the sample, give or take less than one topic.

    Args:
        topics: Columns `topic_id`, `fields_of_study` and `horizon` of table `topics`.
        size: Number of topics; all are returned when there are fewer.
        seed: Of the order within a year, and of the start.

    Source: Cochran, Sampling Techniques, 1977, section 8.5 (systematic sampling with implicit strata).
    """
    if size >= len(topics):
        return topics
    frequency = Counter(field for fields in topics["fields_of_study"].to_list() for field in fields)

    def place(row: tuple[int, Sequence[str], int | None]) -> tuple[str, int, float]:
        topic, fields, year = row
        return max(fields, key=lambda field: (frequency[field], field), default=""), year or 0, _draw(seed, str(topic))

    rows = topics.select("topic_id", "fields_of_study", pl.col("horizon").dt.year()).rows()
    ordered = sorted(rows, key=place)
    start = _draw(seed, "start")
    chosen = [ordered[int((start + number) * len(ordered) / size)][0] for number in range(size)]
    return topics.filter(pl.col("topic_id").is_in(chosen))


def _draw(seed: int, name: str) -> float:
    """Returns a number in [0, 1) that depends on seed and name alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6]) / 2**48


def read_qrels(topics: Dataset) -> dict[int, dict[int, int]]:
    """Returns relevance labels as `{topic_id: {corpus_id: relevance}}`."""
    qrels: dict[int, dict[int, int]] = {}
    for topic_id, corpus_id, relevance in pl.read_parquet(topics.files("qrels")).iter_rows():
        qrels.setdefault(topic_id, {})[corpus_id] = relevance
    return qrels
