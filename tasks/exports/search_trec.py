"""Judged search results as TREC files: graded qrels of a judge, a run an engine."""

from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import quote

import polars as pl

from schemas.errors import UsageError
from tasks.exports.edition import Edition
from tasks.exports.exporter import exporter, write_lines
from tasks.search.judgments import judge
from tasks.store.dataset import Dataset

_SAFE = "/:.@+,;()[]"
"""Characters of keys that are written as they are; others, blanks above all, are percent-encoded."""


@exporter("search_trec", "Judged search results as TREC files: the qrels of each judge, and a run an engine.")
class SearchTrecExporter:
    """Writes `<queries>/<judge>/qrels.txt` and `<queries>/<judge>/runs/<engine>.txt`."""

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths.

        Raises:
            UsageError: No search results of the edition were judged.
        """
        judged = [slot for slot in edition.datasets if fnmatch(slot, "search/*/judgments/*")]
        if not judged:
            raise UsageError(f"edition {edition.name} has no judged search results; run: arena judge QUERIES")
        places = [(edition.dataset(slot), slot.split("/")) for slot in judged]
        return [path for found, name in places for path in write_search_trec(found, folder / name[1] / name[3])]


def write_search_trec(judgments: Dataset, folder: Path) -> list[Path]:
    """Writes `qrels.txt` (levels 0 to 5) and `runs/<engine>.txt`; returns their paths.

    Papers without a valid judgment are in the runs and not in the qrels: score the runs with `judged_only`.

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
    for engine in judgments.manifest.settings(judge).engines:
        rows = places.filter(engine=engine).select("query_key", "doc_key", "rank").iter_rows()
        lines = (f"{_key(query)} Q0 {_key(document)} {rank} {-rank} {engine}" for query, document, rank in rows)
        written.append(write_lines(folder / "runs" / f"{engine}.txt", lines))
    return written


def _key(key: str) -> str:
    return quote(key, safe=_SAFE)
