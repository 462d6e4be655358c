"""The `search_queries` stage: reads and checks the test sets of the search benchmark.

A test set is a JSON object: `{key: {"search_query": text, "settings": {dimension: value}}}`. Keys are unique only
within a file, so a query is named `<test set>/<key>`, where the test set is named after its file.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from schemas.errors import BadInput
from schemas.identifiers import ReleaseId
from schemas.release import ReleaseDataset, SourceFile
from schemas.search import KNOWN_DIMENSIONS, SearchQuery
from schemas.settings import Settings
from schemas.tables.search_queries import SEARCH_QUERIES, SearchQueryRow
from tasks.store.dataset import Dataset, sha256_file
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

ENDING = "_search_queries"
"""Removed from a file's name: `computer_science_ai_search_queries.json` holds the test set `computer_science_ai`."""

_QUERY = {"search_query", "settings"}


class QuerySettings(Settings):
    """The stage has no settings."""


def open_query_files(paths: Iterable[Path]) -> ReleaseDataset:
    """Returns query files as an input of the stage: their contents and names enter the key, their folder does not.

    Raises:
        BadInput: No file is given, one cannot be read, two have the same name, or they are in different folders.
    """
    return _open_files("search_queries", sorted(paths, key=lambda path: path.name))


def open_result_file(path: Path) -> ReleaseDataset:
    """Returns a file of recorded results as an input of the stage `search_results`.

    Raises:
        BadInput: It cannot be read.
    """
    return _open_files("recorded_results", [path])


def open_label_file(path: Path) -> ReleaseDataset:
    """Returns a sheet of human judgments as an input of the stage `agreement`.

    Raises:
        BadInput: It cannot be read.
    """
    return _open_files("human_judgments", [path])


def _open_files(dataset: Any, paths: list[Path]) -> ReleaseDataset:
    if not paths:
        raise BadInput("no file of queries was given; add at least one")
    if twice := [name for name, number in Counter(path.name for path in paths).items() if number > 1]:
        raise BadInput(f"{twice[0]} is given twice; a test set is named after its file: rename one")
    folders = {path.absolute().parent for path in paths}
    if len(folders) > 1:
        raise BadInput(f"the files are in {' and '.join(sorted(map(str, folders)))}; move them into one folder")
    try:
        files = tuple(SourceFile(name=path.name, size=path.stat().st_size, sha256=sha256_file(path)) for path in paths)
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be read ({error.strerror})") from error
    return ReleaseDataset(release=ReleaseId("files"), dataset=dataset, directory=folders.pop(), files=files)


@stage("search_queries", version=1, settings=QuerySettings, after="paperqa_report")
def search_queries(work: Workspace[QuerySettings]) -> None:
    """Writes SEARCH_QUERIES, in the order of the files and of the queries in them.

    Inputs: `files`, one test set each. Unknown dimensions and values are kept, counted and logged as warnings.
    """
    files = work.release("files")
    for shard in work.pending(["queries"]):
        with shard:
            queries = [query for file in files.files for query in read_test_set(files.directory / file.name)]
            for what, number in unknown_values(queries).items():
                log.warning("%d queries have %s, which the benchmark does not define; kept", number, what)
                shard.counts.notes[f"unknown {what}"] = number
            rows = [
                SearchQueryRow(
                    query.query_key,
                    query.test_set,
                    query.text,
                    [{"name": name, "value": value} for name, value in sorted(query.dimensions.items())],
                )
                for query in queries
            ]
            write_rows(shard.file("part-00000.parquet"), SEARCH_QUERIES, rows)
            shard.counts.read = shard.counts.kept = len(rows)


def read_queries(dataset: Dataset, limit: int | None = None) -> list[SearchQuery]:
    """Returns the queries of a dataset of this stage; with a limit, the first `limit` of each test set."""
    taken: Counter[str] = Counter()
    queries: list[SearchQuery] = []
    for row in SEARCH_QUERIES.rows(dataset.table()):
        taken[row.test_set] += 1
        if limit is None or taken[row.test_set] <= limit:
            dimensions = {pair["name"]: pair["value"] for pair in row.dimensions}
            queries.append(SearchQuery(row.query_key, row.test_set, row.text, dimensions))
    return queries


def name_test_set(file: str) -> str:
    """Returns the name of the test set in a file of that name."""
    stem = Path(file).stem
    return stem.removesuffix(ENDING) or stem


def read_test_set(path: Path) -> list[SearchQuery]:
    """Reads and checks one file of queries.

    Raises:
        BadInput: It is not JSON, repeats a key, or has no query or a query without text; the message names the first.
    """
    try:
        told = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not a readable test set ({error}); give a JSON file of queries") from error
    if not isinstance(told, dict) or not told:
        raise BadInput(f"{path}: is no test set; it must be a JSON object with one query per key")
    name = name_test_set(path.name)
    return [_read_query(path, name, key, query) for key, query in cast("dict[str, Any]", told).items()]


def unknown_values(queries: Iterable[SearchQuery]) -> dict[str, int]:
    """Counts queries by each dimension or value that the benchmark does not define."""
    found: Counter[str] = Counter()
    for query in queries:
        for name, value in query.dimensions.items():
            if name not in KNOWN_DIMENSIONS:
                found[f"dimension {name}"] += 1
            elif value not in KNOWN_DIMENSIONS[name]:
                found[f"{name} {value}"] += 1
    return dict(sorted(found.items()))


def marginals(queries: Iterable[SearchQuery]) -> dict[tuple[str, str, str], int]:
    """Counts queries by test set, dimension and value, the most frequent value first."""
    found = Counter((q.test_set, name, value) for q in queries for name, value in q.dimensions.items())
    return dict(sorted(found.items(), key=lambda item: (item[0][:2], -item[1], item[0][2])))


def _read_query(path: Path, test_set: str, key: str, query: Any) -> SearchQuery:
    where = f"{path}, {key[:100]!r}"
    if not isinstance(query, Mapping) or not isinstance(query.get("search_query"), str):
        raise BadInput(f"{where}: no text under 'search_query'; every query needs one")
    if not query["search_query"].strip():
        raise BadInput(f"{where}: 'search_query' is empty")
    if unknown := sorted(query.keys() - _QUERY):
        raise BadInput(f"{where}: {', '.join(unknown)} beside 'search_query' and 'settings'; put it into 'settings'")
    settings = query.get("settings", {})
    if not isinstance(settings, Mapping) or not all(isinstance(v, str) and v.strip() for v in settings.values()):
        raise BadInput(f"{where}: 'settings' must hold a text for every dimension")
    dimensions = {str(name): " ".join(value.split()) for name, value in settings.items()}
    return SearchQuery(f"{test_set}/{key}", test_set, " ".join(query["search_query"].split()), dimensions)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        raise ValueError(f"the key {twice[:100]!r} occurs twice in one object")
    return found
