"""The four forms of a report say the same, and foreign text cannot break any of them."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest

from tasks.reports.blocks import Cell, Change, Estimate, FigureBlock, Label, Mark, Report, Section, TableBlock
from tasks.reports.html import _html_cell, to_html  # pyright: ignore[reportPrivateUsage]
from tasks.reports.render import to_csv, to_json, to_markdown

HOSTILE = '<script>alert(1)</script> | a, "b"\n& c'
TABLE = TableBlock(
    "scores",
    f"Scores {HOSTILE}",
    ("Run", "Recall", "Against best", "Topics", "Seconds"),
    (
        (HOSTILE, Estimate(0.25, 0.2, 0.3), Change(-0.01, 0.5), 1234, 12.5),
        ("b", Estimate(0.5, 0.4, 0.6), None, 1234, 0.0),
        ("c", Estimate(None), None, 0, None),
        ("d", Estimate(0.125), Change(0.02, 0.001), 5, -0.25),
    ),
    f"Note {HOSTILE}",
    best=frozenset({"Recall"}),
)
FIGURE = FigureBlock("plot", f"A plot {HOSTILE}", "<svg xmlns='http://www.w3.org/2000/svg'/>")
REPORT = Report(
    f"Title {HOSTILE}",
    f"Subtitle {HOSTILE}",
    (
        Section(f"Part {HOSTILE}", f"Lead {HOSTILE}", (TABLE, FIGURE)),
        Section("Folded", "Lead", (TableBlock("empty", "Nothing", ("A",), ()),), open=False),
    ),
    (f"Careful {HOSTILE}",),
    {f"run {HOSTILE}": "questions/run.html"},
)


class Page(HTMLParser):
    """Collects tags, references, cells and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.cells: list[str] = []
        self.text = ""
        self.open_sections: list[bool] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [v for k, v in attrs if k in ("src", "href") and v and not v.startswith(("data:", "#"))]
        if tag == "details":
            self.open_sections.append("open" in dict(attrs))
        if tag == "td" or (tag == "th" and ("scope", "row") in attrs):
            self._in_cell = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.cells[-1] += data


@pytest.fixture
def page() -> Page:
    page = Page()
    page.feed(to_html(REPORT))
    return page


def test_the_page_is_self_contained(page: Page) -> None:
    assert page.references == ["questions/run.html"], "only the pages beside it"
    assert not re.search(r"url\(|@import|<link|//[a-z]", to_html(REPORT).replace("//www.w3.org/2000/svg", ""))
    assert page.tags.count("img") == 1


def test_foreign_text_is_escaped_wherever_it_stands(page: Page) -> None:
    assert "script" not in page.tags
    for place in ("Title", "Subtitle", "Part", "Lead", "Careful", "Scores", "Note", "A plot", "run"):
        assert f"{place} {HOSTILE}" in page.text, place
    assert page.cells[0] == HOSTILE


def test_the_best_estimate_of_a_column_is_bold_and_no_other(page: Page) -> None:
    assert page.cells[1] == ".2500 .2000-.3000"
    assert page.cells[5:10] == ["b", ".5000 .4000-.6000", "-", "1,234", ".0000"]
    assert page.tags.count("b") == 1 and "<b>.5000</b>" in to_html(REPORT)


def test_a_section_may_be_folded(page: Page) -> None:
    assert page.open_sections == [True, False]


def shown(value: Cell, low_sign: str) -> str:
    """A cell as a person reads it."""
    match value:
        case Estimate(mean, None):
            return number(mean)
        case Estimate(mean, low, high):
            return low_sign.format(number(mean), f"{number(low)}-{number(high)}")
        case Change(difference, p_value):
            sign = "+" if difference >= 0 else ""
            p = "p < .001" if p_value < 0.001 else f"p {p_value:.3f}".replace("0.", ".")
            return f"{sign}{number(difference)} ({p})"
        case float() | None:
            return number(value)
        case int():
            return f"{value:,}"
        case Label(text, name):
            return f"{text} ({name})" if name else text
        case str():
            return value


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.4f}") if abs(value) < 1 else f"{value:.4g}"


@pytest.mark.parametrize(
    ("means", "shown"),
    [
        ((0.5, 1, 0), [".5000", "1.0000", ".0000"]),
        ((0.5, 1.25, -0.25), ["0.500", "1.250", "-0.250"]),
        ((0, 33.333, 100), ["0.0", "33.3", "100.0"]),
        ((0.5, 12_345.6), ["0.5", "12,345.6"]),
    ],
)
def test_estimates_of_a_column_have_the_same_places(means: tuple[float, ...], shown: list[str]) -> None:
    table = TableBlock("scores", "Scores", ("Mean",), tuple((Estimate(mean),) for mean in means))
    assert [_html_cell(table, row, 0) for row in range(len(means))] == shown
    changes = TableBlock("changes", "Changes", ("By",), tuple((Change(mean, 0.5),) for mean in means))
    signed = [text if text.startswith("-") else f"+{text}" for text in shown]
    assert [_html_cell(changes, row, 0) for row in range(len(means))] == [f"{text} (p .500)" for text in signed]


def test_numbers_have_the_same_places_where_none_is_above_1() -> None:
    def shown(*numbers: float) -> list[str]:
        table = TableBlock("scores", "Scores", ("Recall",), tuple((number,) for number in numbers))
        return [_html_cell(table, row, 0) for row in range(len(numbers))]

    assert shown(1.0, 0.8) == ["1.0000", ".8000"]
    assert shown(1.0, 0.8, 12.5) == ["1", ".8000", "12.5"], "of several kinds"


def test_all_forms_agree_cell_by_cell(page: Page) -> None:
    cells = [value for row in TABLE.rows for value in row]
    assert page.cells == [shown(value, "{} {}") for value in cells]

    lines = [line for line in to_markdown(REPORT).splitlines() if line.startswith("| ")][2:-2]
    texts = [text for line in lines for text in re.split(r"(?<!\\) \| ", line[2:-2])]
    plain = [shown(value, "{} ({})").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for value in cells]
    assert texts == plain

    rows = json.loads(to_json(REPORT))["tables"]["scores"]["rows"]
    assert [v for row in rows for v in row] == [
        list(v[:3]) if isinstance(v, Estimate | Change) else str(v) if isinstance(v, Label) else v for v in cells
    ]

    read = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    for line, row in zip(read, TABLE.rows, strict=True):
        run, recall, change, topics, seconds = row
        assert isinstance(recall, Estimate)
        spread = [run, *recall[:3], *(change if isinstance(change, Change) else (None, None)), topics, seconds]
        assert list(line.values()) == ["" if value is None else str(value) for value in spread]
    assert list(read[0]) == [
        "Run", "Recall", "Recall low", "Recall high", "Against best", "Against best p", "Topics", "Seconds",
    ]  # fmt: skip


def test_markdown_keeps_its_columns() -> None:
    text = to_markdown(REPORT)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(re.sub(r"\\\|", "", line).count("|") == 6 for line in rows[: len(TABLE.rows) + 1])
    assert "<script>" not in "\n".join(rows)


def test_json_has_a_table_by_name() -> None:
    found = json.loads(to_json(REPORT))
    assert set(found["tables"]) == {"scores", "empty"} and found["tables"]["empty"]["rows"] == []
    assert (found["title"], found["warnings"]) == (REPORT.title, list(REPORT.warnings))


def test_columns_of_sentences_may_break_their_lines() -> None:
    table = TableBlock("t", "T", ("Run", "Why"), (("a", "word " * 20),))
    assert '<td class="text">' in to_html(Report("T", "", (Section("S", "", (table,)),)))
    assert '<td class="text">' not in to_html(REPORT)


def test_columns_of_words_are_set_to_the_left_and_those_of_numbers_to_the_right() -> None:
    rows = (("a", "Medicine", 0.5, "2-3", None), ("b", None, None, "none", None))
    page = to_html(Report("T", "", (Section("S", "", (TableBlock("t", "T", ("Run", "Field", "1", "2", "3"), rows),)),)))
    assert '<th scope="col" class="word">Field</th>' in page
    assert page.count('class="word"') == 3


LABELS = TableBlock(
    "labels",
    "Named",
    ("Run", "Score"),
    (
        (Label(HOSTILE, "a.b", (Mark("stand-in", HOSTILE),), f"systems/{HOSTILE}"), Estimate(0.5, 0.4, 0.6, 9)),
        (Label("plain", link="javascript:alert(1)"), Estimate(0.4, 0.3, 0.5, 10)),
    ),
    leaders={"Score": frozenset({0, 1})},
    drawn=frozenset({"Score"}),
)


def test_labels_show_their_marks_and_lead_to_pages_in_the_site_alone() -> None:
    alone = to_html(Report("T", "", (Section("S", "", (LABELS,)),)))
    page = Page()
    page.feed(alone)
    assert "script" not in page.tags and page.references == [] and "stand-in" in page.text
    linked = str(_html_cell(LABELS, 0, 0, "../"))
    assert 'href="../systems/%3Cscript%3E' in linked and "<script" not in linked
    assert "href" not in str(_html_cell(LABELS, 1, 0, "../")), "only addresses of https are links"


def test_intervals_are_drawn_and_grey_over_few_subjects_and_leaders_are_bold() -> None:
    few, enough = (str(_html_cell(LABELS, row, 1)) for row in range(2))
    assert 'class="few"' in few and 'class="few"' not in enough
    assert 'x1="64.0" x2="96.0"' in few and "<b>" in few and "<b>" in enough
