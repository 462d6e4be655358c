"""Which topics a run is made for and scored on."""

import polars as pl

from tasks.store.dataset import Dataset

KEPT = "kept"


def evaluated_topics(topics: Dataset, limit: int | None = None, mindmaps: Dataset | None = None) -> pl.DataFrame:
    """Rows of the table `topics` with outcome `kept`, ascending by topic_id.

    Args:
        topics: Dataset of stage `topics`.
        limit: The first so many; None: all.
        mindmaps: Of these, just the topics that have a mind-map here; None: all.
    """
    kept = pl.read_parquet(topics.files()).filter(pl.col("outcome") == KEPT).sort("topic_id")
    kept = kept if limit is None else kept.head(limit)
    if mindmaps is None:
        return kept
    drawn = pl.read_parquet(mindmaps.files(), columns=["topic_id"])
    return kept.filter(pl.col("topic_id").is_in(drawn["topic_id"].implode()))


def read_qrels(topics: Dataset) -> dict[int, dict[int, int]]:
    """Relevance by corpus_id by topic_id."""
    qrels: dict[int, dict[int, int]] = {}
    for topic_id, corpus_id, relevance in pl.read_parquet(topics.files("qrels")).iter_rows():
        qrels.setdefault(topic_id, {})[corpus_id] = relevance
    return qrels
