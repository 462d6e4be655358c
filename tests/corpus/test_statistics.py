"""Numbers of an edition, and the plots of Figure 4."""

import json
import xml.etree.ElementTree as ET
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Ref
from schemas.mindmap import Shape
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.documents import DOCUMENTS
from schemas.tables.dropped_references import DROPPED_REFERENCES
from schemas.tables.mindmaps import MINDMAPS
from schemas.tables.papers import PAPERS
from schemas.tables.qrels import QRELS
from schemas.tables.references import REFERENCES
from schemas.tables.topics import TOPICS
from tasks.corpus.documents import DocumentSettings, documents
from tasks.corpus.plots import draw_complexity, draw_coverage, fit_complexity
from tasks.corpus.references import ReferenceSettings, references
from tasks.corpus.statistics import describe_graph, statistics
from tasks.corpus.surveys import SurveySettings, surveys
from tests.corpus.conftest import Corpus

FIELDS = [["Geology"], ["Geology", "Physics"], ["Physics"], ["Art"], [], ["Geology"]]


def topic(topic_id: int, outcome: str, coverage: float | None, fields: list[str], relevant: int = 0) -> dict[str, Any]:
    known = {"topic_id": topic_id, "title": "Survey", "outcome": outcome, "fields_of_study": fields}
    return {**known, "coverage": coverage, "relevant": relevant, "influential": relevant // 2}


def link(survey: int, cited: int, linking: str) -> dict[str, Any]:
    paths = {"in_bibliography": linking != "citations_only", "in_citations": linking != "bibliography_only"}
    return {"survey_id": survey, "cited_id": cited, "linking": linking, "used": True, **paths}


def edition(corpus: Corpus) -> dict[str, Ref]:
    papers = [
        {"corpus_id": i, "date": date(2020, 1, 1), "date_precision": "day", "fields_of_study": fields, "abstract": "a"}
        for i, fields in enumerate(FIELDS)
    ]
    documents = [{"corpus_id": i, "fields_of_study": fields} for i, fields in enumerate(FIELDS[:4])]
    rows = [
        topic(0, "kept", 0.25, ["Geology"], relevant=4),
        topic(1, "kept", 0.5, ["Geology", "Physics"], relevant=2),
        topic(2, "none_left", 0.75, ["Physics"]),
        topic(3, "none_accessible", 0.0, ["Art"]),
        topic(4, "no_references", None, []),
    ]
    references = [
        link(0, 1, "both"),
        link(1, 0, "both"),
        link(1, 3, "bibliography_only"),
        link(1, 4, "citations_only") | {"used": False},
        link(2, 5, "citations_only"),
        {"survey_id": 2, "linking": "unmatched", "used": True},
    ]
    gone = [{"topic_id": 0, "corpus_id": 1, "reason": "survey"}, {"topic_id": 1, "corpus_id": 0, "reason": "survey"}]
    return {
        "papers": corpus.given("papers", {PAPERS: papers}, buckets=2),
        "documents": corpus.given("documents", {DOCUMENTS: documents}, buckets=2),
        "surveys": corpus.accepted(0, 1, 2, 3, 4, rejected=[5, 6, 7]),
        "references": corpus.given("references", {REFERENCES: references}),
        "topics": corpus.given("topics", {TOPICS: rows, QRELS: [], DROPPED_REFERENCES: gone}),
    }


def test_the_checklist_compares_with_the_numbers_of_the_paper(corpus: Corpus):
    built = corpus.build(statistics, **edition(corpus))
    found = json.loads(built.path("statistics.json").read_bytes())
    checklist = {item["item"]: (item["ours"], item["paper"]) for item in found["checklist"]}
    assert checklist["documents (the corpus)"] == (4, 12_000_000)
    assert checklist["accepted by the selector"] == (5, 9_993)
    assert checklist["rejected by the selector, share"] == (pytest.approx(3 / 8), 0.85)
    assert checklist["dropped: no references"] == (1, 406)
    assert checklist["dropped: no reference accessible"] == (1, 1_635)
    assert checklist["surveys"] == (3, 7_952)
    assert checklist["surveys with half of the references or more, share"] == (pytest.approx(2 / 3), 0.1718)
    assert checklist["topics"] == (2, None)
    assert checklist["mind-maps"] == (0, 1_884)
    assert found["fields_of_study"]["documents"] == {"Geology": 2, "Physics": 2, "Art": 1}
    assert found["fields_of_study"]["surveys"] == {"Geology": 2, "Physics": 2}
    assert found["coverage"]["by_field"]["Geology"] == {"surveys": 2, "at_least_half": 0.5}
    assert found["relevant"] == {"total": 6, "least": 2, "median": 3.0, "mean": 3.0, "most": 4}
    assert found["linking"] == {"both": 2, "bibliography_only": 1, "citations_only": 2, "unmatched": 1}
    assert found["linking_used"] == {"both": 2, "bibliography_only": 1, "citations_only": 1, "unmatched": 1}
    shares = {"of_bibliography": pytest.approx(2 / 3), "of_citations": pytest.approx(2 / 3), "of_all": 1 / 2}
    assert found["agreement"] == {"surveys": 2, "links": 4, "both": 2} | shares
    assert found["dropped_references"] == {"survey": 2}
    assert (found["survey_graph"]["citations"], found["survey_graph"]["cycles"]) == (3, 1)  # 1 -> 4 does not count


@pytest.mark.parametrize(
    ("made", "notes"),
    [
        (
            {"documents": {"corpus": "full_text"}, "surveys": {"scope": "full_text"}, "references": {}},
            {"documents (the corpus)": "", "surveys": "selected by another rule than GPT-4"},
        ),
        (
            {"documents": {"corpus": "abstract"}, "surveys": {"english": False}, "references": {"source": "both"}},
            {
                "documents (the corpus)": "with title and abstract",
                "accepted by the selector": "among all papers, in any language, selected by another rule than GPT-4",
                "dropped: no references": "linked by bibliography or citations table",
            },
        ),
    ],
)
def test_the_checklist_says_where_a_number_is_not_the_papers(
    corpus: Corpus, made: dict[str, dict[str, Any]], notes: dict[str, str]
):
    given = edition(corpus)
    source = {"source": "bibliography"} | made["references"]
    edges = corpus.given("citation_records", {CITATION_RECORDS: []}, buckets=2)
    given["surveys"] = corpus.build(surveys, SurveySettings(**made["surveys"]), papers=given["papers"]).ref
    given["documents"] = corpus.build(documents, DocumentSettings(**made["documents"]), papers=given["papers"]).ref
    given["references"] = corpus.build(
        references, ReferenceSettings(**source), surveys=given["surveys"], citation_records=edges
    ).ref
    found = json.loads(corpus.build(statistics, **given).path("statistics.json").read_bytes())
    checklist = {item["item"]: item for item in found["checklist"]}
    assert {item: checklist[item]["note"] for item in notes} == notes
    assert (checklist["papers in the release"]["ours"], checklist["papers in the release"]["paper"]) == (6, None)
    assert (checklist["English papers in S2ORC"]["ours"], checklist["English papers in S2ORC"]["paper"]) == (
        None,
        81_100_000,
    )
    assert checklist["papers with full text"]["paper"] == 12_000_000


def test_files_depend_on_the_numbers_alone(corpus: Corpus, tmp_path: Path):
    other = Corpus(tmp_path / "other")
    built, again = corpus.build(statistics, **edition(corpus)), other.build(statistics, **edition(other))
    assert built.manifest.digest == again.manifest.digest
    figures = [file.path for file in built.manifest.files if file.path.endswith(".svg")]
    assert figures == ["figure4a.svg", "figure4b.svg", "figure4c.svg", "figure4d.svg"]
    assert "no mind-maps in this edition" in words_in(built.path("figure4d.svg"))
    assert {"Geology", "Physics", "Art"} <= set(words_in(built.path("figure4a.svg")))


def test_mind_maps_are_counted_and_drawn_where_the_edition_has_them(corpus: Corpus):
    sizes = [(3, 2), (5, 3), (9, 5), (20, 8)]
    maps = [{"topic_id": i, "tree": "[]", "nodes": nodes, "depth": depth} for i, (nodes, depth) in enumerate(sizes)]
    given = edition(corpus) | {"mindmaps": corpus.given("mindmaps", {MINDMAPS: maps})}
    built = corpus.build(statistics, **given)
    found = json.loads(built.path("statistics.json").read_bytes())
    slope = fit_complexity([Shape(*size) for size in sizes]).slope
    assert found["mindmaps"] | {"slope": 0, "intercept": 0} == {
        "maps": 4,
        "nodes": {"least": 3, "median": 7.0, "mean": 9.25, "most": 20},
        "depth": {"least": 2, "median": 4.0, "mean": 4.5, "most": 8},
        "by_depth": {"2": 1, "3": 1, "5": 1, "8": 1},
        "three_to_seven_levels": 0.5,
        "slope": 0,
        "intercept": 0,
    }
    checklist = {item["item"]: item["ours"] for item in found["checklist"]}
    assert (checklist["mind-maps"], checklist["nodes per level of mind-maps, slope"]) == (4, pytest.approx(slope))
    assert f"slope {slope:.2f}" in words_in(built.path("figure4d.svg"))


def test_edition_without_topics(corpus: Corpus):
    empty = {
        "papers": corpus.given("papers", {PAPERS: []}),
        "documents": corpus.given("documents", {DOCUMENTS: []}),
        "surveys": corpus.accepted(),
        "references": corpus.given("references", {REFERENCES: []}),
        "topics": corpus.given("topics", {TOPICS: [], QRELS: [], DROPPED_REFERENCES: []}),
    }
    built = corpus.build(statistics, **empty)
    found = json.loads(built.path("statistics.json").read_bytes())
    assert (found["coverage"]["at_least_half"], found["relevant"]["mean"]) == (None, None)
    assert "no survey with references" in words_in(built.path("figure4c.svg"))


def words_in(path: Path) -> list[str]:
    return [text.strip() for text in ET.parse(path).getroot().itertext() if text.strip()]


def test_graph_with_cycles_and_a_survey_that_cites_itself():
    assert describe_graph([(1, 2), (2, 3), (3, 1), (4, 4), (5, 6), (2, 3)]) == {
        "surveys": 6,
        "citations": 5,
        "density": 5 / 30,
        "components": 3,
        "largest_component": 3,
        "self_citations": 1,
        "cycles": 1,
        "surveys_in_cycles": 3,
    }


def test_regression_of_nodes_on_depth(tmp_path: Path):
    shapes = [Shape(nodes=2 * depth + 1, depth=depth) for depth in (2, 3, 3, 7)]
    line = fit_complexity(shapes)
    assert (line.slope, line.intercept) == pytest.approx((2, 1))
    assert fit_complexity(shapes[1:3]) is None
    draw_complexity(tmp_path / "d.svg", shapes)
    assert "slope 2.00" in words_in(tmp_path / "d.svg")


def test_share_of_all_surveys_is_marked(tmp_path: Path):
    draw_coverage(tmp_path / "c.svg", {"Geology": [0.1, 0.6, 1.0], "Art": [0.2]}, 0.5)
    assert {"Geology", "Art", "all fields: 50.0% at 0.5"} <= set(words_in(tmp_path / "c.svg"))
