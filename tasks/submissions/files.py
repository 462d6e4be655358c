"""Reads files of runs from outside: JSON lines, TREC runs, CSV and Parquet tables."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from pydantic import ValidationError
from pydantic_core import from_json

from schemas.errors import BadInput
from schemas.messages import describe
from schemas.submission import Header, Submission
from tasks.ranking.run_files import read_run

TOPIC = ("topic", "topic_id", "uuid")
"""Names of the column with the topic."""

JSON_CELLS = ("ranking", "tree", "usage")
"""Columns of a table whose cells hold JSON."""


class SubmittedFile(NamedTuple):
    """What a file of submissions holds: what its header says, and what is handed in by topic."""

    header: Header
    topics: dict[str, Submission]


def read_submissions(path: Path) -> SubmittedFile:
    """Reads a file whose form its content shows.

    - JSON lines: `{"topic": ..., "ranking": [...]}` with the fields of `Submission`; the first line may be a `Header`.
    - A TREC run: `topic Q0 document rank score tag`. Documents are ranked by score, as trec_eval does, and those of one
      score as in the file.
    - A CSV or Parquet table with a row for each document: `topic`, `corpus_id`, and `rank` or `score`, or else in the
      order of the rows; or with a row for each topic: `topic`, and the fields of `Submission`, lists and trees as JSON.

    Raises:
        BadInput: The file cannot be read, or a line cannot be used.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a file") from error
    if start[:4] == b"PAR1":
        return SubmittedFile(Header(), _read_table(path, _frame(path, pl.read_parquet)))
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        return _read_lines(path)
    if set(TOPIC) & {cell.strip(b' "').decode(errors="replace") for cell in text.partition(b"\n")[0].split(b",")}:
        return SubmittedFile(Header(), _read_table(path, _frame(path, _read_csv)))
    return SubmittedFile(Header(), _read_trec(path))


def _read_lines(path: Path) -> SubmittedFile:
    header = Header()
    topics: dict[str, Submission] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            record = _parse(path, number, line.removeprefix(b"\xef\xbb\xbf"))
            try:
                if not topics and "topic" not in record:
                    header = Header.model_validate(record)
                else:
                    _add(topics, record)
            except (ValidationError, BadInput) as error:
                raise BadInput(f"{path}, line {number}: {describe(error)}; correct the line") from error
    return SubmittedFile(header, topics)


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = from_json(line)
    except ValueError as error:
        raise BadInput(f"{path}, line {number}: not JSON ({error}); correct or remove the line") from error
    if not isinstance(record, dict):
        raise BadInput(f"{path}, line {number}: an object with a topic is needed; correct the line")
    return record


def _add(topics: dict[str, Submission], record: dict[str, Any]) -> None:
    """Adds a topic's record.

    Raises:
        BadInput: It names no topic, or one that is there already.
    """
    topic = record.pop("topic", None)
    if isinstance(topic, bool) or not isinstance(topic, str | int):
        raise BadInput("topic: the corpus_id of a survey or the UUID of a question is needed")
    if str(topic) in topics:
        raise BadInput(f"topic {topic} occurs twice")
    topics[str(topic)] = Submission.model_validate(record)


def _read_trec(path: Path) -> dict[str, Submission]:
    topics: dict[str, Submission] = {}
    for topic, hits in read_run(path).items():
        ranked = [document for document, _ in sorted(hits, key=lambda hit: -hit[1])]
        _add_ranking(path, topics, topic, ranked)
    return topics


def _add_ranking(path: Path, topics: dict[str, Submission], topic: str, documents: Iterable[object]) -> None:
    try:
        _add(topics, {"topic": topic, "ranking": list(documents)})
    except (ValidationError, BadInput) as error:
        raise BadInput(f"{path}, topic {topic}: {describe(error)}; correct the file") from error


def _read_csv(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema=False)


def _frame(path: Path, read: Any) -> pl.DataFrame:
    try:
        frame: pl.DataFrame = read(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(f"{path}: cannot be read as a table ({describe(error)}); correct the file") from error
    names = [name for name in TOPIC if name in frame.columns]
    if not names:
        raise BadInput(f"{path}: no column {' or '.join(TOPIC)}, it has {', '.join(frame.columns)}; add the topic")
    return frame.rename({names[0]: "topic"}).with_columns(pl.col("topic").cast(pl.String))


def _read_table(path: Path, frame: pl.DataFrame) -> dict[str, Submission]:
    topics: dict[str, Submission] = {}
    if "corpus_id" in frame.columns:
        for topic, documents in _rankings(path, frame):
            _add_ranking(path, topics, topic, documents)
        return topics
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        try:
            _add(topics, dict(_cells(row)))
        except (ValidationError, BadInput, ValueError) as error:
            raise BadInput(f"{path}, row {number}: {describe(error)}; correct the row") from error
    return topics


def _rankings(path: Path, frame: pl.DataFrame) -> Iterator[tuple[str, list[object]]]:
    """Yields the documents of each topic, best first."""
    try:
        if "rank" in frame.columns:
            frame = frame.sort(pl.col("rank").cast(pl.Int64), maintain_order=True)
        elif "score" in frame.columns:
            frame = frame.sort(pl.col("score").cast(pl.Float64), descending=True, maintain_order=True)
    except pl.exceptions.PolarsError as error:
        raise BadInput(f"{path}: rank or score holds no numbers ({describe(error)}); correct the column") from error
    rows = frame.select("topic", "corpus_id").sort("topic", maintain_order=True).iter_rows()
    for topic, group in groupby(rows, key=lambda row: row[0]):
        yield topic, [document for _, document in group]


def _cells(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the values of a row that are there, with JSON cells parsed."""
    for name, value in row.items():
        if value is not None:
            yield name, from_json(value) if name in JSON_CELLS and isinstance(value, str) else value
