"""The `search_queries` stage: test sets of a search benchmark, read and checked.

A test set is a JSON object: `{key: {"search_query": text, "settings": {dimension: value}}}`. Keys are unique in their
file alone, so a query is named `<test set>/<key>`, the test set after its file.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from schemas.errors import BadInput
from schemas.identifiers import ReleaseId
from schemas.release import ReleaseDataset, SourceFile
from schemas.search import KNOWN_DIMENSIONS, SearchQuery
from schemas.settings import Settings
from schemas.tables.search_queries import SEARCH_QUERIES
from tasks.store.dataset import Dataset, sha256_file
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

ENDING = "_search_queries"
"""Taken off a file's name: `computer_science_ai_search_queries.json` holds the test set `computer_science_ai`."""

_QUERY = {"search_query", "settings"}


class QuerySettings(Settings):
    """Nothing to choose: the files decide."""


def open_query_files(paths: Iterable[Path]) -> ReleaseDataset:
    """Files of queries as an input of the stage: their content and names enter the key, their folder does not.

    Raises:
        BadInput: There is none, one cannot be read, two have the same name, or they lie in different folders.
    """
    return _open_files("search_queries", sorted(paths, key=lambda path: path.name))


def open_result_file(path: Path) -> ReleaseDataset:
    """A file of recorded results as an input of stage `search_results`.

    Raises:
        BadInput: It cannot be read.
    """
    return _open_files("recorded_results", [path])


def open_label_file(path: Path) -> ReleaseDataset:
    """A sheet of human judgments as an input of stage `agreement`.

    Raises:
        BadInput: It cannot be read.
    """
    return _open_files("human_judgments", [path])


def _open_files(dataset: Any, paths: list[Path]) -> ReleaseDataset:
    if not paths:
        raise BadInput("no file of queries was named; add at least one")
    if twice := [name for name, number in Counter(path.name for path in paths).items() if number > 1]:
        raise BadInput(f"{twice[0]} is named twice; a test set is called after its file: rename one")
    folders = {path.absolute().parent for path in paths}
    if len(folders) > 1:
        raise BadInput(f"files lie in {' and '.join(sorted(map(str, folders)))}; put them into one folder")
    try:
        files = tuple(SourceFile(name=path.name, size=path.stat().st_size, sha256=sha256_file(path)) for path in paths)
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be read ({error.strerror})") from error
    return ReleaseDataset(release=ReleaseId("files"), dataset=dataset, directory=folders.pop(), files=files)


@stage("search_queries", version=1, settings=QuerySettings, after="paperqa_report")
def search_queries(work: Workspace[QuerySettings]) -> None:
    """Writes SEARCH_QUERIES, in the order of the files and of the queries in them.

    Inputs: `files`, one test set each. Unknown dimensions and values are kept, counted and warned about.
    """
    files = work.release("files")
    for shard in work.pending(["queries"]):
        with shard:
            queries = [query for file in files.files for query in read_test_set(files.directory / file.name)]
            for what, number in unknown_values(queries).items():
                log.warning("%d queries have %s, which the benchmark's own table does not list; kept", number, what)
                shard.counts.notes[f"unknown {what}"] = number
            rows = [
                {
                    "query_key": query.query_key,
                    "test_set": query.test_set,
                    "text": query.text,
                    "dimensions": [{"name": n, "value": v} for n, v in sorted(query.dimensions.items())],
                }
                for query in queries
            ]
            table = pa.Table.from_pylist(rows, SEARCH_QUERIES.arrow)
            write_table(shard.file("part-00000.parquet"), SEARCH_QUERIES, table)
            shard.counts.read = shard.counts.kept = len(rows)


def read_queries(dataset: Dataset, limit: int | None = None) -> list[SearchQuery]:
    """The queries of a dataset of this stage; with a limit, the first of each test set."""
    taken: Counter[str] = Counter()
    queries: list[SearchQuery] = []
    for row in dataset.table().to_pylist():
        taken[row["test_set"]] += 1
        if limit is None or taken[row["test_set"]] <= limit:
            dimensions = {pair["name"]: pair["value"] for pair in row["dimensions"]}
            queries.append(SearchQuery(row["query_key"], row["test_set"], row["text"], dimensions))
    return queries


def name_test_set(file: str) -> str:
    """What the queries of a file of that name are called after."""
    stem = Path(file).stem
    return stem.removesuffix(ENDING) or stem


def read_test_set(path: Path) -> list[SearchQuery]:
    """Reads and checks one file of queries.

    Raises:
        BadInput: It is no JSON, has a key twice, no query, or a query without text; the message names the first one.
    """
    try:
        told = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: no readable test set ({error})") from error
    if not isinstance(told, dict) or not told:
        raise BadInput(f"{path}: a test set is a JSON object with a query under every key")
    name = name_test_set(path.name)
    return [_read_query(path, name, key, query) for key, query in cast("dict[str, Any]", told).items()]


def unknown_values(queries: Iterable[SearchQuery]) -> dict[str, int]:
    """How many queries have a dimension, or a value of one, that the benchmark's own table does not list."""
    found: Counter[str] = Counter()
    for query in queries:
        for name, value in query.dimensions.items():
            if name not in KNOWN_DIMENSIONS:
                found[f"dimension {name}"] += 1
            elif value not in KNOWN_DIMENSIONS[name]:
                found[f"{name} {value}"] += 1
    return dict(sorted(found.items()))


def marginals(queries: Iterable[SearchQuery]) -> dict[tuple[str, str, str], int]:
    """Number of queries by test set, dimension and value, the most frequent value first."""
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
        raise ValueError(f"the key {twice[:100]!r} stands twice in one object")
    return found
