"""The page on judged search engines: who is best, who is tied, where engines fail, what judging cost."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Ref
from tasks.reports.blocks import Estimate, FigureBlock, Label, TableBlock
from tasks.reports.report import ReportSettings
from tasks.reports.search_report import compose, search_report
from tasks.reports.sections.search import sections
from tasks.reports.source import ReportSource
from tasks.search.judge_agreement import AgreementSettings, agreement
from tasks.store.store import Request, Store
from tests.search.test_scores import Levels, Lists, publish_search

HOSTILE = "<script>x</script>"
LEVELS: Levels = {
    f"t{'<i>' if n % 2 else ''}/q{n}": {"a": 5, "b": 1, HOSTILE: 4, "d": None if n == 3 else 2} for n in range(12)
}
LISTS: Lists = {
    "good": {key: [HOSTILE, "a"] for key in LEVELS},
    "poor": {key: ["b", "d"] for key in list(LEVELS)[:-1]},
}
NAMES = ReportSettings(title="Search", release="2024-02-06", edition="test")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, Ref]]:
    store = Store(tmp_path_factory.mktemp("search"))
    judgments, scores = publish_search(store, LEVELS, LISTS)
    refs = {name: ref for name, ref in scores.manifest.inputs.items() if isinstance(ref, Ref)}
    refs["judgments:j"], refs["search_scores:j"] = refs.pop("judgments"), scores.ref
    refs["agreement"] = store.build(Request(agreement, AgreementSettings(), {"judgments:j": judgments.ref})).ref
    return store, refs


@pytest.fixture
def source(published: tuple[Store, dict[str, Ref]]) -> ReportSource:
    store, refs = published
    return ReportSource({name: store.open(ref) for name, ref in refs.items()})


def tables(source: ReportSource) -> dict[str, TableBlock]:
    blocks = [block for section in sections(source) for block in section.blocks]
    return {block.name: block for block in blocks if isinstance(block, TableBlock)}


def rows(table: TableBlock) -> dict[str, dict[str, Any]]:
    named = [(next((cell for cell in row if isinstance(cell, Label)), row[0]), row) for row in table.rows]
    return {str(name): dict(zip(table.columns, row, strict=True)) for name, row in named}


def test_engines_are_listed_best_first_with_their_counts(source: ReportSource) -> None:
    table = tables(source)["search-j"]
    assert list(rows(table)) == ["good", "poor"]
    good, poor = rows(table).values()
    assert good["Mean @10"].mean == 18, "8 of 10 places are empty"
    assert good["80 or above @10"].mean == pytest.approx(0.2)
    assert (good["Mean of returned @10"].mean, good["80 or above of returned @10"].mean) == (90, 1)
    assert poor["Mean @10"].mean == pytest.approx((10 * 60 / 10 + 20 / 9) / 12), "q3: one judged paper, one unknown"
    assert (good["Answered"], poor["Answered"], poor["Queries"]) == (12, 11, 12)
    assert poor["Judged @10"].mean == pytest.approx(10.5 / 11)
    assert (good["Tied with"], poor["Tied with"]) == ("none", "none")


def test_a_pair_that_differs_is_told_apart(source: ReportSource) -> None:
    found = tables(source)["search_differences-j"]
    first = dict(zip(found.columns, found.rows[0], strict=True))
    assert (first["Pair"], first["Measure"], first["Verdict"]) == ("good - poor", "Mean @10", "told apart")
    assert (first["Wins"], first["Ties"], first["Losses"]) == (12, 0, 0)


def test_groups_have_their_own_means_and_a_map(source: ReportSource) -> None:
    values = {row[0]: row[1:] for row in tables(source)["search_values-j"].rows}
    assert values["test_set: t"][0] == 6 and values["test_set: t<i>"][0] == 6
    mean = values["length: Short"][1]
    assert isinstance(mean, Estimate) and mean.mean == 18
    (figure,) = (b for section in sections(source) for b in section.blocks if isinstance(b, FigureBlock))
    texts = [element.text for element in ElementTree.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"good", "poor", "t<i> (6)", "Short (6)", "18.0"} <= set(texts)


def test_the_worst_queries_show_what_the_judge_saw(source: ReportSource) -> None:
    worst = tables(source)["search_worst_1-j"]
    assert worst.caption == "words" and worst.columns[1] == "Mean @10"
    by_engine = rows(worst)
    assert (by_engine["good"]["First paper"], by_engine["good"]["Its score"]) == (HOSTILE, 80)
    assert by_engine["poor"]["First paper"] is None, "the query for which it returned nothing is the worst"


def test_cost_and_outcomes_are_counted(source: ReportSource) -> None:
    cost = {str(row[0]): row[1] for row in tables(source)["search_cost-j"].rows}
    assert (cost["Tokens read"], cost["Tokens written"], cost["USD, when the calls were made"]) == (1200, 120, 3.0)
    outcomes = rows(tables(source)["search_outcomes-j"])
    assert (outcomes["poor"]["Answered"], outcomes["poor"]["Failed"]) == (11, 1)


def test_agreement_of_a_judge_with_itself(source: ReportSource) -> None:
    ((kind, first, second, papers, equal, *_),) = tables(source)["judges_agreement"].rows
    assert (kind, first, second, papers, equal) == ("repeat", "j#0", "j#1", 47, 0), "the second attempt says 0 always"


def test_the_stage_writes_the_page_and_trec_files_for_each_judge(published: tuple[Store, dict[str, Ref]]) -> None:
    store, refs = published
    dataset = store.open(store.build(Request(search_report, NAMES, refs)).ref)
    names = {file.path for file in dataset.manifest.files}
    assert {"report.html", "report.json", "trec/j/qrels.txt", "figures/search-map-j.svg"} <= names
    assert any(name.startswith("trec/j/") and name.endswith("good.txt") for name in names)
    page = dataset.path("report.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page


def test_the_subtitle_counts_queries_and_judgments(source: ReportSource) -> None:
    page = compose(source, NAMES)
    assert page.subtitle == "Edition test: 12 queries in 2 test sets, 0 judgments by 1 judge."
    assert page.warnings == ()


def test_without_judged_engines_there_is_no_section(tmp_path: Path) -> None:
    assert sections(ReportSource({})) == []
