"""A query that exceeds its memory limit spills to disk."""

from pathlib import Path

from tasks.corpus.duckdb_session import SessionLimits, iter_tables, open_session


def test_query_spills_beyond_its_memory(tmp_path: Path):
    with open_session(SessionLimits(memory_gib=0.1, threads=1, spill=tmp_path / "not" / "there"), "query") as db:
        wide = "SELECT i, repeat(md5(i::VARCHAR), 8) AS text FROM range(500_000) t(i) ORDER BY md5(i::VARCHAR)"
        db.execute(f"CREATE TEMP TABLE wide AS {wide}")
        spilt = [path for path in (tmp_path / "not" / "there" / "query").iterdir() if path.stat().st_size]
        rows = sum(len(table) for table in iter_tables(db.sql("FROM wide")))
    assert spilt
    assert rows == 500_000
