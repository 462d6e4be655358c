"""The tables themselves, one Parquet file each, for polars, pandas or DuckDB."""

from pathlib import Path

from schemas.table import AnyTable
from schemas.tables.qrels import QRELS
from schemas.tables.runs import RUNS
from schemas.tables.topics import TOPICS
from tasks.exports.exporter import Exported, exporter
from tasks.store.parquet import read_tables, write_table


@exporter("parquet", "The tables topics, qrels and runs, one Parquet file each, with column descriptions.")
class ParquetExporter:
    """Writes `topics.parquet`, `qrels.parquet` and `runs/<tag>.parquet`."""

    def write(self, exported: Exported, folder: Path) -> list[Path]:
        """Writes the files and returns their paths."""
        sources: list[tuple[str, AnyTable, list[Path]]] = [
            ("topics", TOPICS, exported.topics.files()),
            ("qrels", QRELS, exported.topics.files("qrels")),
        ]
        sources += [(f"runs/{tag}", RUNS, run.files()) for tag, run in exported.tagged_runs().items()]
        written: list[Path] = []
        for name, table, files in sources:
            path = folder / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_table(path, table, read_tables(files))
            written.append(path)
        return written
