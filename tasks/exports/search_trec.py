"""Judged search results as TREC files: graded qrels of a judge, a run an engine."""

from pathlib import Path
from urllib.parse import quote

import polars as pl

from tasks.exports.exporter import write_lines
from tasks.store.dataset import Dataset

_SAFE = "/:.@+,;()[]"
"""Characters of keys that stand as they are; others, blanks above all, are percent-encoded."""


def write_search_trec(judgments: Dataset, folder: Path) -> list[Path]:
    """Writes `qrels.txt` (levels 0 to 5) and `runs/<engine>.txt`; returns their paths.

    Papers without a valid judgment are in the runs and not in the qrels: score them with `judged_only`.

    Args:
        judgments: Dataset of stage `judge`.
        folder: Created when absent.
    """
    scored = pl.read_parquet(judgments.files()).filter(pl.col("attempt") == 0, pl.col("score").is_not_null())
    labels = scored.select("query_key", "doc_key", "score").sort("query_key", "doc_key")
    places = pl.read_parquet(judgments.files("pool")).sort("query_key", "rank")
    written = [
        write_lines(folder / "qrels.txt", (f"{_key(q)} 0 {_key(d)} {level}" for q, d, level in labels.iter_rows()))
    ]
    for engine in judgments.manifest.parameters["engines"]:
        rows = places.filter(engine=engine).select("query_key", "doc_key", "rank").iter_rows()
        lines = (f"{_key(query)} Q0 {_key(document)} {rank} {-rank} {engine}" for query, document, rank in rows)
        written.append(write_lines(folder / "runs" / f"{engine}.txt", lines))
    return written


def _key(key: str) -> str:
    return quote(key, safe=_SAFE)
