"""Reads the topics that systems answer and are scored on, and their relevance labels."""

import polars as pl

from tasks.store.dataset import Dataset

KEPT = "kept"


def evaluated_topics(topics: Dataset, limit: int | None = None, mindmaps: Dataset | None = None) -> pl.DataFrame:
    """Returns the rows of table `topics` with outcome `kept`, ascending by topic_id.

    Args:
        topics: Dataset of stage `topics`.
        limit: Number of topics, taken from the beginning; None: all.
        mindmaps: Keeps only those topics that have a mind-map in this dataset; None: all.
    """
    kept = pl.read_parquet(topics.files()).filter(pl.col("outcome") == KEPT).sort("topic_id")
    kept = kept if limit is None else kept.head(limit)
    if mindmaps is None:
        return kept
    drawn = pl.read_parquet(mindmaps.files(), columns=["topic_id"])
    return kept.filter(pl.col("topic_id").is_in(drawn["topic_id"].implode()))


def read_qrels(topics: Dataset) -> dict[int, dict[int, int]]:
    """Returns relevance labels as `{topic_id: {corpus_id: relevance}}`."""
    qrels: dict[int, dict[int, int]] = {}
    for topic_id, corpus_id, relevance in pl.read_parquet(topics.files("qrels")).iter_rows():
        qrels.setdefault(topic_id, {})[corpus_id] = relevance
    return qrels
