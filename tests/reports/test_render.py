"""The four forms of a report say the same, and foreign text cannot break any of them."""

import csv
import io
import json
from html.parser import HTMLParser

from tasks.reports.blocks import Change, Estimate, FigureBlock, Report, Section, TableBlock
from tasks.reports.render import to_csv, to_html, to_json, to_markdown

HOSTILE = '<script>alert(1)</script> | a, "b"\n& c'
TABLE = TableBlock(
    "scores",
    "Scores",
    ("Run", "Recall", "Against best", "Topics"),
    (
        (HOSTILE, Estimate(0.25, 0.2, 0.3), Change(-0.01, 0.5), 1234),
        ("b", Estimate(0.5, 0.4, 0.6), None, 1234),
        ("c", Estimate(None), None, 0),
    ),
    best=frozenset({"Recall"}),
)
REPORT = Report(
    f"Title {HOSTILE}",
    "Subtitle",
    (Section("Part", "Lead", (TABLE, FigureBlock("plot", "A plot", "<svg xmlns='http://www.w3.org/2000/svg'/>"))),),
    (f"Careful {HOSTILE}",),
)


class Page(HTMLParser):
    """Collects tags, outside references and cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.cells: list[str] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [v for k, v in attrs if k in ("src", "href") and v and not v.startswith(("data:", "#"))]
        if tag == "td":
            self._in_cell = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.cells[-1] += data


def test_the_page_is_self_contained_and_escaped() -> None:
    page = Page()
    page.feed(to_html(REPORT))
    assert "script" not in page.tags
    assert page.outside == []
    assert page.cells[0] == HOSTILE
    assert page.cells[1] == ".2500 .2000-.3000"
    assert page.cells[4:8] == ["b", ".5000 .4000-.6000", "-", "1,234"]
    assert page.tags.count("b") == 1  # the best estimate of the column, and no other
    assert "img" in page.tags


def test_markdown_keeps_its_columns() -> None:
    text = to_markdown(REPORT)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(TABLE.rows) + 2
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)
    assert "<script>" not in "\n".join(rows)


def test_csv_spreads_estimates_and_changes() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows[0] == ["Run", "Recall", "Recall low", "Recall high", "Against best", "Against best p", "Topics"]
    assert rows[1] == [HOSTILE, "0.25", "0.2", "0.3", "-0.01", "0.5", "1234"]
    assert rows[2] == ["b", "0.5", "0.4", "0.6", "", "", "1234"]


def test_json_holds_every_table() -> None:
    tables = json.loads(to_json(REPORT))["tables"]
    assert tables["scores"]["rows"][0] == [HOSTILE, [0.25, 0.2, 0.3], [-0.01, 0.5], 1234]
