"""The process that runs a model's SQL: it can read one database file and open, write or keep nothing else.

It imports nothing of this project: an isolated interpreter runs it as a file.
"""

import json
import resource
import sys
import threading
from typing import Any

import duckdb

CONFIG = {
    "access_mode": "READ_ONLY",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    "threads": "1",
    "lock_configuration": "true",
}
MOST_COLUMNS, MOST_ROWS, MOST_CHARACTERS = 50, 1000, 200_000
"""Limits of an answer: columns, rows, characters of all its cells."""

FIRST_ROWS = 50
"""Rows that are looked at first: only where they are short are more of them read."""


def answer(connection: duckdb.DuckDBPyConnection, sql: str, seconds: float) -> dict[str, object]:
    """Runs one SELECT; returns columns and rows, or the error."""
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            kinds = ", ".join(str(statement.type).rpartition(".")[2] for statement in statements[:5]) or "nothing"
            return {"error": f"one SELECT statement is allowed, not: {kinds}"}
        return _select(connection, statements[0].query.strip().rstrip(";"))
    except duckdb.InterruptException:
        return {"error": f"stopped after {seconds:g} s; ask for less"}
    except (duckdb.Error, MemoryError, RecursionError) as error:
        return {"error": str(error).partition("\n\nPossible solutions")[0][:1000] or "out of memory"}
    finally:
        timer.cancel()


def _select(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, object]:
    found = _read(connection, query, FIRST_ROWS)
    if found.get("more") and sum(len(cell or "") for row in found["rows"] for cell in row) < MOST_CHARACTERS:
        try:
            return _read(connection, query, MOST_ROWS)
        except (duckdb.Error, MemoryError):
            return found  # the rows after the first ones are too large, or take too long
    return found


def _read(connection: duckdb.DuckDBPyConnection, query: str, rows: int) -> dict[str, Any]:
    # Rows and cells are cut before they leave DuckDB; that the query stands alone was checked by its parser.
    cut = f"SELECT left(COLUMNS(*)::VARCHAR, {MOST_CHARACTERS}) FROM (\n{query}\n) LIMIT {rows + 1}"
    found = connection.execute(cut)
    columns = [column[0] for column in found.description or ()]
    if len(columns) > MOST_COLUMNS:
        return {"error": f"{len(columns)} columns: at most {MOST_COLUMNS} are shown; name those you need"}
    read = found.fetchall()
    left, shown = MOST_CHARACTERS, []
    for row in read[:rows]:
        if left <= 0:
            break
        shown.append([])
        for cell in row:
            shown[-1].append(cell and cell[:left])
            left -= len(cell or "")
    return {"columns": columns, "rows": shown, "more": len(read) > len(shown), "cut": left < 0}


def main() -> None:
    """Answers queries from standard input; arguments: database file, megabytes of memory, seconds per query."""
    file, megabytes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = 4 * megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with duckdb.connect(file, read_only=True, config={**CONFIG, "memory_limit": f"{megabytes}MB"}) as connection:
        for line in sys.stdin:
            print(json.dumps(answer(connection, json.loads(line), seconds)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
