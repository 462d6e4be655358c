"""The SQLite file behind the door: replies, spending, open batches.

WAL mode lets several processes on one machine use the file at once. Every statement is a transaction of its own, and a
killed process leaves an intact file. The file must be on a local disk: WAL needs shared memory, which network file
systems do not provide.
"""

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from schemas.errors import StoreError

VERSION = 3
"""Format of the tables; an older program refuses a newer file."""

BUSY_S = 60.0
"""How long a statement waits for another process's write, in seconds."""

CHECKPOINT_PAGES = 8000
"""Pages of 4 kB after which the log is written into the file; everything waits for the disk then."""

_TABLES = """
CREATE TABLE IF NOT EXISTS calls (
  key TEXT PRIMARY KEY, parts BLOB NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, prompt TEXT NOT NULL,
  stage TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL, raw BLOB NOT NULL, input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL, nano_usd INTEGER NOT NULL, estimated INTEGER NOT NULL, called_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS spending (
  run TEXT NOT NULL, stage TEXT NOT NULL, nano_usd INTEGER NOT NULL, tokens INTEGER NOT NULL, calls INTEGER NOT NULL,
  PRIMARY KEY (run, stage)
);
CREATE TABLE IF NOT EXISTS batched (
  key TEXT PRIMARY KEY, batch TEXT NOT NULL, run TEXT NOT NULL, stage TEXT NOT NULL, model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, nano_usd INTEGER NOT NULL
);
DROP TABLE IF EXISTS reserved;
CREATE TABLE IF NOT EXISTS leases (
  run TEXT NOT NULL, stage TEXT NOT NULL, holder TEXT NOT NULL, expires REAL NOT NULL, calls INTEGER NOT NULL,
  nano_usd INTEGER NOT NULL, tokens INTEGER NOT NULL, likely_nano_usd INTEGER NOT NULL, likely_tokens INTEGER NOT NULL,
  PRIMARY KEY (run, stage, holder)
);
CREATE TABLE IF NOT EXISTS waiting (
  run TEXT NOT NULL, holder TEXT NOT NULL, expires REAL NOT NULL, PRIMARY KEY (run, holder)
);
"""


class Database:
    """Opens the file, and creates it if it does not exist.

    Args:
        path: The file; None for a database in memory.
        tables: Statements that create the tables.
        purpose: What the file holds, for messages.

    Raises:
        StoreError: The folder or file cannot be used, is not a database of this kind, or has a newer format.
    """

    def __init__(self, path: Path | None, tables: str = _TABLES, purpose: str = "the cache of model calls") -> None:
        self._tables, self._purpose = tables, purpose
        self._name = ":memory:" if path is None else str(path)
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                _keep_private(path)
            self._connection = sqlite3.connect(
                self._name, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = NORMAL")
        self.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        (version,) = self.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreError(f"{self._name}: written by a newer program (format {version}, ours is {VERSION}); update")
        if version < VERSION:
            self._create()

    def _create(self) -> None:
        with self.transaction():
            for statement in (*self._tables.strip().split(";\n"), f"PRAGMA user_version = {VERSION}"):
                self.execute(statement)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Runs the statements of a block as one transaction; an exception rolls it back."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Runs one statement; outside `transaction` it is a transaction of its own.

        Raises:
            StoreError: The file cannot be read or written: damaged, disk full, locked for too long.
        """
        try:
            return self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(f"{self._name}: cannot be used as {self._purpose} ({error}); repair it or name another file")

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()


def _keep_private(path: Path) -> None:
    """Creates the file for its owner alone, or takes the others' rights off one of ours; SQLite's side files follow."""
    with suppress(FileExistsError):  # one that exists is not opened: closing it would drop SQLite's locks on it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if path.stat().st_uid == os.geteuid():
        path.chmod(0o600)
