"""Runs a model's SQL: databases that contain one scope only, and a process that answers queries from one of them.

An interrupt does not stop DuckDB inside a function call (`list_sum(range(1000000000))` takes minutes and gigabytes), so
queries run in a separate process whose memory the kernel limits, and which is killed when it exceeds its time.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import duckdb

from schemas.paperqa import PaperId
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_table

TABLES = {
    "papers": "part",
    "sections": "sections",
    "tables": "tables",
    "figures": "figures",
    "equations": "equations",
    "bibliography": "references",
}
"""Tables visible to SQL by the file prefix of their rows; `references` is a reserved word of SQL."""

SECONDS = 10.0
"""Time limit of a query in seconds; the process is killed after half as long again."""

MEGABYTES = 512
MOST_SQL = 10_000
"""Longest query, in characters."""

KEPT_FILES = 8
_CHILD = Path(__file__).with_name("sql_child.py")


class SqlSandbox:
    """A process that answers SELECTs from one read-only database file; a query that crashes it fails alone.

    Args:
        file: The database; the sandbox deletes it at the end.
        seconds: Time limit of a query.
        megabytes: Memory for DuckDB; the whole process may take four times as much.
    """

    def __init__(self, file: Path, seconds: float = SECONDS, megabytes: int = MEGABYTES) -> None:
        self._file = file
        self._seconds = seconds
        self._megabytes = megabytes
        self._process: subprocess.Popen[str] | None = None

    def query(self, sql: str) -> dict[str, Any]:
        """Returns `columns`, `rows` (text or None) and `more`, or `error`: one sentence that the model can act on."""
        if len(sql) > MOST_SQL:
            return {"error": f"{len(sql)} characters: a query may have {MOST_SQL}"}
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        killer = threading.Timer(1.5 * self._seconds + 1, process.kill)
        killer.start()
        try:
            process.stdin.write(json.dumps(sql) + "\n")
            process.stdin.flush()
            told = process.stdout.readline()
        except BrokenPipeError:
            told = ""
        finally:
            killer.cancel()
        if told:
            return json.loads(told)
        self._stop()
        return {"error": f"stopped: it took more than {self._seconds:g} s or too much memory; ask for less"}

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_CHILD), str(self._file), str(self._megabytes), str(self._seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                text=True,
                encoding="utf-8",
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        """Ends the process and deletes the file."""
        self._stop()
        self._file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ScopedDatabases:
    """Database files by scope, created on first use; the most recent ones are kept. Thread-safe.

    A file contains only the rows of its scope's papers, so that no SQL can see another paper.

    Args:
        papers: Dataset of stage `paperqa_store`.
    """

    def __init__(self, papers: Dataset) -> None:
        self._folder_of_papers = papers.folder
        self._shards: dict[PaperId, str] = {
            paper: path.stem.removeprefix("part-")
            for path in papers.files()
            for paper in read_table(path, columns=["paper_id"])["paper_id"].to_pylist()
        }
        self._folder = Path(tempfile.mkdtemp(prefix="arena-paperqa-"))
        self._files: OrderedDict[frozenset[PaperId], Path] = OrderedDict()
        self._lock = threading.Lock()
        self._made = 0

    def open(self, scope: Iterable[PaperId]) -> SqlSandbox:
        """Opens a sandbox over the papers of a scope."""
        wanted = frozenset(scope)
        with self._lock:
            if wanted not in self._files:
                self._files[wanted] = self._new_name()
                self._write(self._files[wanted], wanted)
            self._files.move_to_end(wanted)
            own = self._new_name()
            own.hardlink_to(self._files[wanted])
            if len(self._files) > KEPT_FILES:
                self._files.popitem(last=False)[1].unlink()
        return SqlSandbox(own)

    def _new_name(self) -> Path:
        self._made += 1
        return self._folder / f"{self._made}.duckdb"

    def _write(self, file: Path, scope: frozenset[PaperId]) -> None:
        """Writes a new database from the shards that contain papers of the scope."""
        shards = sorted({self._shards[paper] for paper in scope}) or sorted(set(self._shards.values()))[:1]
        with duckdb.connect(str(file), config={"threads": 1}) as connection:
            for name, prefix in TABLES.items():
                files = [str(self._folder_of_papers / f"{prefix}-{shard}.parquet") for shard in shards]
                connection.execute(
                    f"CREATE TABLE {name} AS SELECT * FROM read_parquet($1) "
                    "WHERE paper_id IN (SELECT unnest($2::VARCHAR[]))",
                    [files, sorted(scope)],
                )

    def close(self) -> None:
        """Deletes the files."""
        shutil.rmtree(self._folder, ignore_errors=True)


def show_result(result: dict[str, Any], most: int) -> str:
    """Formats a result for an agent: one line per row, or the error; a text cut at `most` characters says so."""
    if "error" in result:
        return f"Error: {result['error']}"
    if not result["rows"]:
        return f"No rows. Columns: {', '.join(result['columns'])}"
    lines = [" | ".join(result["columns"])]
    lines += [" | ".join("NULL" if cell is None else " ".join(cell.split()) for cell in row) for row in result["rows"]]
    text = "\n".join(lines)
    if len(text) > most:
        return f"{text[:most]}\n(cut: the result is longer)"
    return text + (f"\n(more rows: only the first {len(result['rows'])} are shown)" if result["more"] else "")
