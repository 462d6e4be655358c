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
from collections.abc import Generator, Iterable
from contextlib import contextmanager
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

MEGABYTES = 256
"""Memory of DuckDB in a process; the whole process may take four times as much."""

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
        pool: Bounds the processes of all sandboxes; None: this sandbox is on its own.
    """

    def __init__(
        self, file: Path, seconds: float = SECONDS, megabytes: int = MEGABYTES, pool: "ProcessPool | None" = None
    ) -> None:
        self._file = file
        self._pool = pool or ProcessPool(1)
        self._seconds = seconds
        self._megabytes = megabytes
        self._process: subprocess.Popen[str] | None = None

    def query(self, sql: str) -> dict[str, Any]:
        """Returns `columns`, `rows` (text or None), whether there are `more` rows, and whether the last one is `cut`.

        Otherwise `error`: one sentence that the model can act on.
        """
        if len(sql) > MOST_SQL:
            return {"error": f"{len(sql)} characters: a query may have {MOST_SQL}"}
        with self._pool.turn(self):
            return self._query(sql)

    def _query(self, sql: str) -> dict[str, Any]:
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
        self.stop()
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

    def stop(self) -> None:
        """Ends the process; the next query starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        """Ends the process and deletes the file."""
        self._pool.leave(self)
        self._file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProcessPool:
    """Bounds how many sandboxes have a process at once, and with that the memory of all of them. Thread-safe.

    A query whose sandbox has no process takes the place of the one that has been idle for longest, or waits for it.

    Args:
        most: Number of processes, at least 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: OrderedDict[SqlSandbox, None] = OrderedDict()
        self._busy: set[SqlSandbox] = set()
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, sandbox: SqlSandbox) -> Generator[None]:
        """Waits until the sandbox may run a process, and holds its place during the block."""
        with self._changed:
            self._changed.wait_for(lambda: self._admit(sandbox))
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(sandbox)
                self._idle[sandbox] = None
                self._changed.notify_all()

    def _admit(self, sandbox: SqlSandbox) -> bool:
        if sandbox in self._busy:
            return False
        if sandbox in self._idle:
            del self._idle[sandbox]
        elif len(self._idle) + len(self._busy) >= self._most:
            if not self._idle:
                return False
            self._idle.popitem(last=False)[0].stop()
        self._busy.add(sandbox)
        return True

    def leave(self, sandbox: SqlSandbox) -> None:
        """Ends the process of a sandbox that runs no query, and frees its place."""
        with self._changed:
            self._idle.pop(sandbox, None)
            sandbox.stop()
            self._changed.notify_all()


class ScopedDatabases:
    """Database files by scope, created on first use; the most recent ones are kept. Thread-safe.

    A file contains only the rows of its scope's papers, so that no SQL can see another paper.

    Args:
        papers: Dataset of stage `paperqa_store`.
        memory_gib: Memory that the processes of all sandboxes may take together, in GiB; one process always runs.
    """

    def __init__(self, papers: Dataset, memory_gib: float = 4.0) -> None:
        self._pool = ProcessPool(max(1, int(memory_gib * 1024 / (4 * MEGABYTES))))
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
        return SqlSandbox(own, pool=self._pool)

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


def show_result(result: dict[str, Any]) -> str:
    """Formats a result for an agent: one line per row, or the error; says when there is more than it holds."""
    if "error" in result:
        return f"Error: {result['error']}"
    if not result["rows"]:
        return f"No rows. Columns: {', '.join(result['columns'])}"
    lines = [" | ".join(result["columns"])]
    lines += [" | ".join("NULL" if cell is None else " ".join(cell.split()) for cell in row) for row in result["rows"]]
    if result["cut"]:
        lines.append("(the last row is cut: ask for fewer columns, or for a part of a text with substr)")
    if result["more"]:
        lines.append(
            f"(more rows: these are the first {len(result['rows'])}; ask for the others with LIMIT and OFFSET)"
        )
    return "\n".join(lines)
