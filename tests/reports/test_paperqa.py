"""The page on questions over papers, and the page of every question."""

import json
import uuid
from html.parser import HTMLParser
from typing import Any

import pytest

from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.tables.paperqa_questions import (
    PAPERQA_ANNOTATIONS,
    PAPERQA_QUESTIONS,
    PaperqaAnnotationRow,
    PaperqaQuestionRow,
)
from schemas.tables.paperqa_runs import PAPERQA_ANSWERS, PAPERQA_STEPS, PaperqaAnswerRow, PaperqaStepRow
from tasks.paperqa.runs import PaperQaSettings
from tasks.paperqa.scores import AnswerScoreSettings, paperqa_scores
from tasks.reports.blocks import Change, Estimate, Label, TableBlock
from tasks.reports.paperqa_report import SHOWN_CHARACTERS, compose, paperqa_report, question_page
from tasks.reports.render import plain_cell
from tasks.reports.report import ReportSettings
from tasks.reports.sections.paperqa import sections
from tasks.reports.source import ReportSource
from tasks.store.store import Request, Store
from tests.published import publish

HOSTILE = "<img src=x onerror=alert(1)>"
IDS = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number))) for number in range(4)]
TAGS = (("single", "text"), ("single", "table"), ("multiple", "text"), ("single", "text"))
ANSWERS = {"one": ("yes", "yes", HOSTILE, None), "two": ("no", "yes", "no", "no")}
NAMES = ReportSettings(title="AirQA", release="2024-02-06", edition="test")


def publish_answers(store: Store, provider: str = "p") -> dict[str, Ref]:
    exact = json.dumps({"eval_func": "eval_string_exact_match", "eval_kwargs": {"gold": "yes"}})
    questions = [PaperqaQuestionRow(one, f"Is it {HOSTILE}?", "", [], [])._asdict() for one in IDS]
    hidden = [
        PaperqaAnnotationRow(one, [*tags, "objective"], [IDS[0]] * ("multiple" in tags), exact, [], None)._asdict()
        for one, tags in zip(IDS, TAGS, strict=True)
    ]
    tables = {"part": (PAPERQA_QUESTIONS, questions), "annotations": (PAPERQA_ANNOTATIONS, hidden)}
    refs = {"questions": publish(store, "paperqa_questions", tables)}
    for tag, texts in ANSWERS.items():
        answers = [
            PaperqaAnswerRow(
                tag, one, text, "answered" if text else "failed", None if text else "it broke", 2, 100, 10, 0.5
            )
            for one, text in zip(IDS, texts, strict=True)
        ]
        steps = [
            PaperqaStepRow(IDS[0], 2, None, HOSTILE, "x" * (SHOWN_CHARACTERS + 1), 0),
            PaperqaStepRow(IDS[0], 1, "RetrieveFromVectorstore", "{}", HOSTILE, 1),
        ]
        content = {
            "part": (PAPERQA_ANSWERS, [row._asdict() for row in answers]),
            "steps": (PAPERQA_STEPS, [row._asdict() for row in steps]),
        }
        model = ModelName(provider=provider, model="m")
        scope = "named" if tag == "one" else "library"
        settings = PaperQaSettings(baseline="agent", baseline_version=1, model=model, scope=scope, tag=tag)
        refs[f"paperqa_run:{tag}"] = publish(store, "paperqa_run", content, settings)
        inputs = {"questions": refs["questions"], "run": refs[f"paperqa_run:{tag}"]}
        scored = Request(paperqa_scores, AnswerScoreSettings(resamples=200), inputs)
        refs[f"paperqa_scores:{tag}"] = store.build(scored).ref
    return refs


@pytest.fixture
def source(store: Store) -> ReportSource:
    return ReportSource({name: store.open(ref) for name, ref in publish_answers(store).items()})


def tables(source: ReportSource) -> dict[str, TableBlock]:
    blocks = [block for section in sections(source) for block in section.blocks]
    return {block.name: block for block in blocks if isinstance(block, TableBlock)}


def rows(table: TableBlock) -> dict[str, dict[str, Any]]:
    named = [(next((cell for cell in row if isinstance(cell, Label)), row[0]), row) for row in table.rows]
    return {str(name): dict(zip(table.columns, row, strict=True)) for name, row in named}


def test_averages_are_percentages_by_tag(source: ReportSource) -> None:
    elements, tasks = (tables(source)[name] for name in ("paperqa_elements", "paperqa_tasks"))
    assert plain_cell(rows(elements)["one"]["all"], 100).startswith("50.0 (")
    assert plain_cell(rows(elements)["one"]["text"], 100).startswith("33.3 (")
    assert rows(elements)["two"]["table"].mean == 100
    assert rows(elements)["one"]["formula"] is None, "no question has the tag"
    assert rows(tasks)["two"]["single"].mean == pytest.approx(100 / 3)
    assert "text 3" in elements.note and "all 4" in elements.note


def test_outcomes_tell_what_was_not_scored_and_what_it_cost(source: ReportSource) -> None:
    one, two = rows(tables(source)["paperqa_outcomes"]).values()
    assert (one["Answered and scored"], one["Other outcomes"]) == ("3 of 4", "failed 1")
    assert (two["Answered and scored"], two["Other outcomes"], two["Tokens"]) == ("4 of 4", "-", 440)
    assert (one["Replies a question"], one["USD, judge included"]) == (2, 2)


def test_each_run_is_compared_with_the_best(source: ReportSource) -> None:
    table = tables(source)["paperqa_comparisons"]
    ((tag, change, better, equal, worse, questions),) = table.rows
    assert (str(tag), table.caption.split(",")[0]) == ("two", "Against one")
    assert isinstance(change, Change) and change.difference == -25
    assert (better, equal, worse, questions) == (0, 3, 1, 4)


def test_both_scopes_of_a_system_stand_side_by_side(source: ReportSource) -> None:
    table = tables(source)["paperqa_scopes"]
    every, multiple = table.rows
    assert (str(every[0]), every[1], multiple[1], every[5], multiple[5]) == ("one", "all", "multiple", 4, 1)
    assert isinstance(every[2], Estimate) and isinstance(every[3], Estimate)
    assert (every[2].mean, every[3].mean) == (50, 25)
    assert isinstance(every[4], Change) and every[4].difference == -25
    assert "1 of 1 `multiple` questions have references" in table.note


def test_published_figures_stand_beside(source: ReportSource) -> None:
    models = rows(tables(source)["paperqa_published_models"])
    assert models["NeuSym-RAG, Qwen2.5-VL-72B-Instruct"]["all"] == "39.6"
    assert rows(tables(source)["paperqa_published_methods"])["Classic RAG"]["retrieval"] == "9.4"


def test_without_scored_answers_there_is_no_section() -> None:
    assert sections(ReportSource({})) == []


class Tags(HTMLParser):
    """Collects tags, text and the ids of folded entries."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_shows_every_question_with_its_steps(source: ReportSource) -> None:
    page = Tags()
    page.feed(question_page(source, "one"))
    assert page.ids == IDS
    assert "img" not in page.tags and page.text.count(f"Is it {HOSTILE}?") == 4
    assert "it broke" in page.text and "eval_string_exact_match" in page.text
    assert page.text.index("1. RetrieveFromVectorstore") < page.text.index("2. no action"), "steps by turn"
    assert f"... ({SHOWN_CHARACTERS + 1:,} characters)" in page.text
    assert page.text.count("2 steps") == 1 and page.text.count("0 steps") == 3


def test_the_stage_writes_a_page_for_each_run_and_links_it(store: Store) -> None:
    dataset = store.open(store.build(Request(paperqa_report, NAMES, publish_answers(store))).ref)
    names = {file.path for file in dataset.manifest.files}
    assert {"report.html", "questions/one.html", "questions/two.html", "tables/paperqa_tasks.csv"} <= names
    assert 'href="questions/one.html"' in dataset.path("report.html").read_text()
    assert 'href="../report.html"' in dataset.path("questions/one.html").read_text()


def test_warnings_name_what_stood_in(store: Store) -> None:
    refs = publish_answers(store, provider="stand-in")
    page = compose(ReportSource({name: store.open(ref) for name, ref in refs.items()}), NAMES)
    assert page.subtitle.startswith("Edition test: 0 questions, 2 runs")
    assert [warning.split()[0] for warning in page.warnings] == ["In", "A"]
    assert "without a judge" in page.warnings[1]
