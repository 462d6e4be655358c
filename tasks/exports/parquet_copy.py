"""The tables themselves, one Parquet file each, for Polars, pandas or DuckDB."""

from pathlib import Path

from schemas.table import AnyTable
from schemas.tables.qrels import QRELS
from schemas.tables.runs import RUNS
from schemas.tables.topics import TOPICS
from tasks.exports.edition import RUN, Edition
from tasks.exports.exporter import exporter
from tasks.store.parquet import read_tables, write_table


@exporter("parquet", "The tables topics, qrels and runs, one Parquet file each, with column descriptions.")
class ParquetExporter:
    """Writes `topics.parquet`, `qrels.parquet` and `runs/<tag>.parquet`."""

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths."""
        topics = edition.dataset("topics")
        sources: list[tuple[str, AnyTable, list[Path]]] = [
            ("topics", TOPICS, topics.files()),
            ("qrels", QRELS, topics.files("qrels")),
        ]
        sources += [(f"runs/{tag}", RUNS, edition.dataset(RUN + tag).files()) for tag in edition.runs()]
        written: list[Path] = []
        for name, table, files in sources:
            path = folder / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_table(path, table, read_tables(files))
            written.append(path)
        return written
