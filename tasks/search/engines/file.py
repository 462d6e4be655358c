"""Results that an engine returned earlier, recorded in a file.

JSON lines, CSV or Parquet, one row for each result. Columns: `query_key` (as in the test set's file, or
`<test set>/<key>`), `rank` (from 1) and `title`; optional: `abstract`, `id`, `url`, `score`.
"""

import logging
from pathlib import Path

import polars as pl

from schemas.errors import BadInput
from schemas.search import Found
from tasks.search.engine import EngineKit, engine

log = logging.getLogger(__name__)

NEEDED = ("query_key", "rank", "title")
TEXTS = ("query_key", "title", "abstract", "id", "url")
SUFFIXES = (".jsonl", ".ndjson", ".csv", ".parquet")


class RecordedResults:
    """Recorded results, read from a file's rows in the order of their ranks; gaps between ranks are closed.

    Args:
        path: The file.
        query_keys: Keys of all queries; rows of other queries are ignored with a warning.

    Raises:
        BadInput: The file cannot be read, lacks a column, has no known query, a missing or repeated rank, or a key that
            several test sets share.
    """

    def __init__(self, path: Path, query_keys: tuple[str, ...]) -> None:
        rows = _known(_read(path), path, query_keys)
        _check_ranks(rows, path)
        rows = rows.sort("query_key", "rank").select(name for name in (*TEXTS, "score") if name in rows.columns)
        self._rows = rows.partition_by("query_key", as_dict=True, include_key=False)

    def look_up(self, query_key: str, n: int) -> list[Found]:
        """Returns the first `n` recorded papers."""
        rows = self._rows.get((query_key,))
        return [] if rows is None else [Found(**row) for row in rows.head(n).iter_rows(named=True)]


def _read(path: Path) -> pl.DataFrame:
    try:
        if path.suffix == ".csv":
            rows = pl.read_csv(path, infer_schema=False)
        elif path.suffix == ".parquet":
            rows = pl.read_parquet(path)
        elif path.suffix in SUFFIXES:
            rows = pl.read_ndjson(path, infer_schema_length=None)
        else:
            raise BadInput(f"{path}: the file name must end with one of {', '.join(SUFFIXES)}")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"{path}: cannot be read as results ({str(error).splitlines()[0]})") from error
    if missing := [name for name in NEEDED if name not in rows.columns]:
        raise BadInput(f"{path}: no column {', '.join(missing)} (there are: {', '.join(rows.columns)})")
    if nested := [name for name in (*TEXTS, "rank", "score") if name in rows.columns and rows.schema[name].is_nested()]:
        raise BadInput(f"{path}: column {nested[0]} holds lists or objects; expected texts or numbers")
    texts = [pl.col(name).cast(pl.String).fill_null("") for name in TEXTS if name in rows.columns]
    score = [pl.col("score").cast(pl.Float64, strict=False)] if "score" in rows.columns else []
    rank = pl.col("rank").cast(pl.Float64, strict=False)
    return rows.with_columns(*texts, *score, rank=rank.replace(float("nan"), None))


def _known(rows: pl.DataFrame, path: Path, query_keys: tuple[str, ...]) -> pl.DataFrame:
    """Returns the rows of known queries, with their full keys."""
    full: dict[str, list[str]] = {key: [key] for key in query_keys}
    for key in query_keys:
        full.setdefault(key.partition("/")[2], []).append(key)
    given = rows["query_key"].unique().to_list()
    if several := sorted(key for key in given if len(full.get(key, ())) > 1):
        raise BadInput(
            f"{path}: query_key {several[0]!r} is in several test sets; write {' or '.join(full[several[0]])}"
        )
    names = {key: full[key][0] for key in given if key in full}
    if len(names) < len(given):
        log.warning("%s: %d query keys are in no test set and are ignored", path, len(given) - len(names))
    if not names:
        raise BadInput(f"{path}: none of its query keys is in a test set, for example {(given or ['(no row)'])[0]!r}")
    if len(set(names.values())) < len(names):
        raise BadInput(f"{path}: the same query stands with and without its test set; write it one way")
    return rows.filter(pl.col("query_key").is_in(list(names))).with_columns(pl.col("query_key").replace_strict(names))


def _check_ranks(rows: pl.DataFrame, path: Path) -> None:
    wrong = rows.filter(pl.col("rank").is_null() | (pl.col("rank") < 1) | (pl.col("rank") != pl.col("rank").floor()))
    if len(wrong):
        raise BadInput(
            f"{path}: {len(wrong)} rows have no rank from 1 upwards, first for query {wrong['query_key'][0]}; "
            "give every result its rank"
        )
    twice = rows.group_by("query_key", "rank").len().filter(pl.col("len") > 1).sort("query_key", "rank")
    if len(twice):
        query, rank, number = twice.row(0)
        raise BadInput(
            f"{path}: {len(twice)} ranks are repeated, the first is rank {int(rank)} of query {query} "
            f"({number} rows); give every result its own rank"
        )


@engine("file", "Recorded results: JSON lines, CSV or Parquet with query_key, rank, title, abstract, id, url.")
def file(kit: EngineKit) -> RecordedResults:
    """Reads the whole file; 100,000 rows take a second."""
    (path,) = kit.files
    return RecordedResults(path, kit.query_keys)
