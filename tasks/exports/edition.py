"""An edition opened for reading: its datasets by slot, and its tables for Polars and DuckDB."""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl
import pyarrow.parquet as pq

from schemas.errors import BadInput, UsageError
from tasks.exports.part import Part
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.store import Store

RUN = "run/"
"""Slots of runs begin with this; the run's tag follows."""


WHOLE = Part()


class _Files(NamedTuple):
    """The files of one table in one slot, and what a row is."""

    slot: str
    files: list[Path]
    meaning: str


class Edition:
    """Reads the datasets and tables of one edition; changes nothing.

    Args:
        name: The edition's name.
        datasets: Datasets by slot, for example `topics` or `run/title.bm25.abstract`.
        part: Which topics `topics`, `judgments`, `qrels`, `runs` and `run` show; tables show every row.
    """

    def __init__(self, name: str, datasets: Mapping[str, Dataset], part: Part = WHOLE) -> None:
        self.name = name
        self.datasets = dict(datasets)
        self.part = part

    def dataset(self, slot: str) -> Dataset:
        """Returns the dataset in a slot.

        Raises:
            UsageError: The edition has no such slot; the message lists those it has.
        """
        if slot not in self.datasets:
            raise UsageError(f"edition {self.name} has no {slot}; it has: {', '.join(self.datasets) or 'nothing'}")
        return self.datasets[slot]

    def tables(self) -> dict[str, str]:
        """Returns what one row is, by the table's name, for every Parquet table of the edition."""
        return {name: parts[0].meaning for name, parts in sorted(self._tables.items())}

    def table(self, name: str, slot: str | None = None) -> pl.LazyFrame:
        """Returns a table as a lazy Polars frame; nothing is read until it is collected.

        A table that may lie in several slots, for example one a run, has a further column `slot`.

        Args:
            name: One of `tables()`, for example `qrels`.
            slot: Only the rows of this slot; None: the rows of all slots that hold the table, one after the other.

        Raises:
            UsageError: The edition has no such table; the message lists those it has.
        """
        parts = [part for part in self._tables.get(name, []) if slot in (None, part.slot)]
        if not parts:
            where = f"edition {self.name}" + (f", slot {slot}," if slot else "")
            raise UsageError(f"{where} has no table {name!r}; the edition has: {', '.join(self.tables()) or 'none'}")
        return pl.concat([_scan(part) for part in parts], how="diagonal")

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Returns the answer to a query as a DuckDB relation; every table of `tables()` is a view.

        Args:
            query: DuckDB's SQL; a table whose name is a keyword is quoted: `FROM "references"`.

        Raises:
            duckdb.Error: As DuckDB says.
        """
        return self._connection.sql(query)

    def runs(self) -> tuple[str, ...]:
        """Returns the tags of the edition's runs, sorted; each is safe as a file name and as a column of a TREC file.

        The private part of an edition has none.

        Raises:
            BadInput: A tag holds other characters than letters, digits and `_.@+-`.
        """
        if not self.part.labelled:
            return ()
        tags = sorted(slot.removeprefix(RUN) for slot in self.datasets if slot.startswith(RUN))
        for tag in tags:
            if not re.fullmatch(r"\w[\w.@+-]*", tag, re.ASCII):
                raise BadInput(f"edition {self.name}: run {tag!r} is no file name; run it again under another tag")
        return tuple(tags)

    def run(self, tag: str) -> dict[int, list[tuple[int, float]]]:
        """Returns a run as `evaluate_run` takes it: (corpus_id, score) pairs by topic_id, best first."""
        ranked = self.of_part(pl.read_parquet(self.dataset(RUN + tag).files())).sort("topic_id", "rank")
        hits: dict[int, list[tuple[int, float]]] = {}
        for topic_id, corpus_id, score in ranked.select("topic_id", "corpus_id", "score").iter_rows():
            hits.setdefault(topic_id, []).append((corpus_id, score))
        return hits

    def topics(self) -> pl.DataFrame:
        """Returns the topics that runs are scored on, ascending by topic_id."""
        return self.of_part(evaluated_topics(self.dataset("topics")))

    def of_part(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns those rows of a table whose topics belong to the edition's part."""
        held = [topic for topic in rows["topic_id"].unique() if self.part.holds(topic)]
        return rows.filter(pl.col("topic_id").is_in(held))

    def judgments(self) -> pl.DataFrame:
        """Returns topic_id, corpus_id and relevance of these topics, sorted.

        Raises:
            UsageError: The edition is opened as its private part, whose judgments stay.
        """
        dataset = self.dataset("topics")
        if not self.part.labelled:
            raise UsageError(f"edition {self.name}: the judgments of the private part are not for export")
        return self.of_part(pl.read_parquet(dataset.files("qrels"))).sort("topic_id", "corpus_id")

    def qrels(self) -> dict[int, dict[int, int]]:
        """Returns the relevance judgments of these topics as `evaluate_run` takes them: label by document by topic.

        Raises:
            UsageError: The edition is opened as its private part, whose judgments stay.
        """
        labels: dict[int, dict[int, int]] = {}
        for topic_id, corpus_id, relevance in self.judgments().iter_rows():
            labels.setdefault(topic_id, {})[corpus_id] = relevance
        return {topic: labels.get(topic, {}) for topic in self.topics()["topic_id"]}

    @cached_property
    def _tables(self) -> dict[str, list[_Files]]:
        """Where each table lies, by the name that its files carry."""
        tables: dict[str, list[_Files]] = {}
        for slot, dataset in self.datasets.items():
            names = [file.path for file in dataset.manifest.files if file.path.endswith(".parquet")]
            for prefix in sorted({name.partition("-")[0] for name in names}):
                files = dataset.files(prefix)
                notes = pq.read_schema(files[0]).metadata or {}
                if b"table" in notes:
                    part = _Files(slot, files, notes[b"meaning"].decode())
                    tables.setdefault(notes[b"table"].decode(), []).append(part)
        return tables

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        for name, parts in self._tables.items():
            connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL BY NAME ".join(map(_select, parts))}')
        return connection


def _scan(part: _Files) -> pl.LazyFrame:
    frame = pl.scan_parquet(part.files)
    return frame.with_columns(slot=pl.lit(part.slot)) if "/" in part.slot else frame


def _select(part: _Files) -> str:
    """The rows of `_scan` in SQL."""
    files = ", ".join(_quote(str(path)) for path in part.files)
    slot = f", {_quote(part.slot)} AS slot" if "/" in part.slot else ""
    return f"SELECT *{slot} FROM read_parquet([{files}])"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def open_edition(root: Path, name: str, part: Part = WHOLE) -> Edition:
    """Opens an edition of the store in `root`, or a part of it.

    Raises:
        UsageError: There is no such edition; the message lists those there are.
    """
    store = Store(root)
    return Edition(name, {slot: store.open(ref) for slot, ref in Editions(store).load(name).slots.items()}, part)
