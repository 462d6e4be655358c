"""What a question may see, by whatever way it looks; hostile SQL and arithmetic."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput
from tasks.paperqa.calculator import calculate
from tasks.paperqa.desk import PaperQaDesk
from tasks.paperqa.paper_library import PaperLibrary
from tasks.paperqa.sandbox import ScopedDatabases, SqlSandbox, show_result
from tasks.paperqa.sql_child import MOST_CHARACTERS, MOST_ROWS
from tests.paperqa.conftest import BIRD, DEEP, GRAPH, IMAGE, ask


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "scope"),
    [
        (ask(anchors=(BIRD, IMAGE)), {BIRD, IMAGE}),
        (ask(venues=("ACL2023",)), {GRAPH, BIRD}),
        (ask(anchors=(DEEP,), venues=("iclr2024",)), {DEEP, IMAGE}),
        (ask(), {GRAPH, BIRD, IMAGE, DEEP}),
        (ask(venues=("emnlp2020",)), set()),
    ],
)
def test_every_way_to_papers_ends_at_the_scope(library: PaperLibrary, question, scope):
    words = "learning of the graph song image model"
    with PaperQaDesk(question, library) as desk:
        for engine in ("dense", "bm25"):
            found = {passage.paper_id for passage in desk.search(words, 50, engine)}
            assert found == scope
        rows = desk.sql("SELECT DISTINCT paper_id FROM sections UNION SELECT paper_id FROM papers").splitlines()
        assert {row for row in rows if "-" in row} == scope
        for stranger in {GRAPH, BIRD, IMAGE, DEEP} - scope:
            for look in (desk.full_text, lambda p: desk.view(p, 1), lambda p: desk.search("x", 1, paper=p)):
                with pytest.raises(BadInput, match="there is no paper"):
                    look(stranger)
        assert {lookup.tool for lookup in desk.lookups} == {"dense", "bm25", "sql"}


def test_a_missing_anchor_is_told_and_widens_nothing(library: PaperLibrary):
    lost = type(BIRD)("0" * 8 + "-0000-5000-8000-" + "0" * 12)
    with PaperQaDesk(ask(anchors=(lost,)), library) as desk:
        assert desk.missing == (lost,)
        assert desk.search("learning", 5) == []
        assert desk.sql("SELECT * FROM papers").startswith("No rows")


def test_pages_are_rendered_where_there_is_a_pdf(library: PaperLibrary):
    with PaperQaDesk(ask(anchors=(BIRD, GRAPH)), library) as desk:
        whole, part = desk.view(BIRD, 1), desk.view(BIRD, 1, [10, 30, 100, 40])
        assert (whole.media_type, part.media_type) == ("image/png", "image/png")
        assert len(part.data) < len(whole.data)
        with pytest.raises(BadInput, match="no PDF of paper"):
            desk.view(GRAPH, 1)
        with pytest.raises(BadInput, match="no page 2"):
            desk.view(BIRD, 2)
        with pytest.raises(BadInput, match="does not lie on the page"):
            desk.view(BIRD, 1, [0, 0, 9999, 10])


@pytest.fixture(scope="module")
def database(library: PaperLibrary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sql") / "copy.duckdb"
    box = library.databases.open([BIRD])
    file.hardlink_to(box._file)
    box.close()
    return file


@pytest.fixture(scope="module")
def sandbox(database: Path):
    (own := database.with_name("own.duckdb")).hardlink_to(database)
    with SqlSandbox(own, seconds=1.0, megabytes=256) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("COPY papers TO '{folder}/x.csv'", "one SELECT"),
        ("EXPORT DATABASE '{folder}/all'", "one SELECT"),
        ("ATTACH '{folder}/x.duckdb' AS x", "one SELECT"),
        ("INSTALL httpfs", "one SELECT"),
        ("LOAD httpfs", "one SELECT"),
        ("PRAGMA database_list", "one SELECT"),
        ("SET enable_external_access = true", "one SELECT"),
        ("DELETE FROM papers", "one SELECT"),
        ("WITH a AS (SELECT 1) INSERT INTO papers SELECT * FROM papers", "one SELECT"),
        ("SELECT 1; DROP TABLE papers", "one SELECT"),
        ("SELECT 1) UNION ALL (SELECT 2", "Parser Error"),
        ("", "one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "Permission Error"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM read_text('/etc/*')", "Permission Error"),
        ("SELECT * FROM glob('/**')", "Permission Error"),
        ("SELECT * FROM read_parquet('https://example.org/x.parquet')", "Error"),
        ("SELECT count(*) FROM range(10000000) a, range(10000000) b", "stopped"),
        ("WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r", "stopped"),
        ("SELECT list_sum(range(1000000000))", "Error"),
        ("SELECT string_agg(repeat('x', 100000), '') FROM range(100000)", "Error"),
        ("SELECT " + ", ".join(f"{i} AS c{i}" for i in range(60)), "columns"),
        ("SELECT '" + "x" * 10_001 + "'", "characters"),
        ("SELECT nothing FROM nowhere", "does not exist"),
    ],
)
def test_hostile_sql_gets_an_observation_and_changes_nothing(sandbox: SqlSandbox, database: Path, sql: str, told: str):
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    result = sandbox.query(sql.format(folder=database.parent))
    assert told in result["error"]
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert {path.name for path in database.parent.iterdir()} == {"copy.duckdb", "own.duckdb"}
    assert sandbox.query("SELECT count(*) FROM papers;")["rows"] == [["1"]]


def test_large_results_are_cut_in_rows_and_cells(sandbox: SqlSandbox):
    found = sandbox.query("SELECT repeat('x', 1000000) AS long FROM range(100000000) -- 100 TB")
    assert (len(found["rows"]), found["more"], found["cut"]) == (1, True, False)
    assert sum(len(row[0]) for row in found["rows"]) == MOST_CHARACTERS
    short = sandbox.query("SELECT i FROM range(100000) t(i) ORDER BY i")
    assert (short["rows"][-1], short["more"]) == ([str(MOST_ROWS - 1)], True)


def test_a_cell_comes_whole(sandbox: SqlSandbox):
    table = "<table>" + "".join(f"<tr><td>row {i}</td></tr>" for i in range(80)) + "</table>"
    assert len(table) > 1500
    assert show_result(sandbox.query(f"SELECT '{table}' AS html, 'end' AS last")) == f"html | last\n{table} | end"


def test_all_sandboxes_share_their_processes(library: PaperLibrary):
    before = children("sql_child.py")
    databases = ScopedDatabases(library._papers, memory_gib=2.5)  # two processes of at most 1 GiB
    boxes = [databases.open([paper]) for paper in (GRAPH, BIRD, IMAGE, DEEP)]

    def title(box: SqlSandbox) -> str:
        return box.query("SELECT title FROM papers")["rows"][0][0]

    try:
        with ThreadPoolExecutor(4) as pool:
            titles = list(pool.map(title, boxes * 2))
            assert titles[:4] == titles[4:]
            assert len(set(titles)) == 4
        assert len(children("sql_child.py") - before) <= 2
    finally:
        for box in boxes:
            box.close()
        databases.close()
    assert children("sql_child.py") <= before


def children(program: str) -> set[int]:
    """Ids of this process's children that run a program."""
    found: set[int] = set()
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended
            if program in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


@pytest.mark.parametrize(
    ("expression", "value"),
    [("1 + 2 * 3", 7), ("(85.3 - 80) / 80 * 100", 6.625), ("2 ** 10", 1024), ("-7 // 2", -4), ("max(1, sqrt(9))", 3)],
)
def test_arithmetic(expression: str, value: float):
    assert calculate(expression) == pytest.approx(value)


@pytest.mark.parametrize(
    "expression",
    [
        *("9**9**9", "2**100000", "(10**1000)**1000", "1/0", "", "1 +", "1 if 1 else 2", "[1]*9", "'a'*9", "True + 1"),
        *("__import__('os').system('id')", "().__class__", "open('/etc/passwd')", "lambda: 1", "x", "abs(x=1)"),
        *("(" * 400, "1" * 600, "exp(99999)", "(-8) ** 0.5", "round(1, 2, 3)", "1e999", "max(*[1])"),
        *("a := 1", "1 < 2", "1j", "f'{1}'", "1 << 999999", "10**400 * 1.5", "sqrt(-1)"),
    ],
)
def test_anything_but_bounded_arithmetic_is_refused(expression: str):
    with pytest.raises(BadInput):
        calculate(expression)


@given(st.text(alphabet=st.sampled_from("0123456789+-*/%(). ,eabsmaxround"), max_size=60))
@settings(max_examples=200)
def test_no_expression_does_more_than_compute_or_refuse(expression: str):
    with suppress(BadInput):
        assert isinstance(calculate(expression), int | float)
