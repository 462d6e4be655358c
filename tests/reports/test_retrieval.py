"""The retrieval sections and the whole report, from a small edition of two runs."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.pipeline.summaries import people_rows, score_rows
from schemas.manifest import Ref
from schemas.settings import Settings
from schemas.tables.runs import OUTCOMES, RUNS
from tasks.metrics.ranking import Judged, all_measures, column_labels, measure
from tasks.metrics.ranking.measure import _registry  # pyright: ignore[reportPrivateUsage]
from tasks.ranking.answers import SystemSettings
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.ranking.scores import ScoreSettings, scores
from tasks.reports.blocks import Change, Estimate, Label, TableBlock
from tasks.reports.report import ReportSettings, compose, report
from tasks.reports.sections.retrieval import sections
from tasks.reports.source import ReportSource
from tasks.store.stage import Stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.published import publish, publish_topics, topic_row

QRELS = {1: {11: 2, 12: 1}, 2: {21: 1}, 3: {31: 2}}
FIRST, SECOND = "decomposer.bm25.abstract", "title.bm25.abstract"
FOUND = {FIRST: {1: 11, 2: 99, 3: 31}, SECOND: {1: 98, 2: 21}}
FIELDS = {1: ["Biology"], 2: ["Biology", "Physics"], 3: []}
STATISTICS = {
    "checklist": [
        {"item": "Documents <all>", "ours": 40.0, "paper": 12_000_000.0},
        {"item": "Maps", "ours": None, "paper": 1884.0},
    ],
    "outcomes": {"kept": 3, "no_date": 7},
    "dropped_references": {"survey": 2, "late": 2},
    "linking": {"corpus_id": 9},
    "dates": {"day": 5, "year": 6},
}
NAMES = ReportSettings(title="Arena <1>", release="2024-02-06", edition="test")


def publish_statistics(store: Store) -> Ref:
    def write(work: Workspace[Any]) -> None:
        for shard in work.pending(["all"]):
            with shard:
                shard.file("statistics.json").write_text(json.dumps(STATISTICS))
                shard.counts.read, shard.counts.dropped = 5000, {"late": 1200, "none": 0}
                for letter in "abcd":
                    shard.file(f"figure4{letter}.svg").write_text(
                        f"<svg xmlns='http://www.w3.org/2000/svg' id='{letter}'/>"
                    )

    return store.build(Request(Stage("statistics", 1, Settings, write), Settings(), {})).ref


def publish_edition(
    store: Store, fallbacks: set[int] = frozenset(), tags: tuple[str, ...] = (FIRST, SECOND)
) -> dict[str, Ref]:
    rows = [topic_row(topic, fields=FIELDS[topic]) for topic in QRELS]
    topics = publish_topics(store, [*rows, topic_row(4, outcome="no_date")], QRELS)
    refs = {"topics": topics, "statistics": publish_statistics(store)}
    for tag in tags:
        settings = SystemSettings(
            baseline=tag.partition(".")[0], baseline_version=1, retriever="bm25", field="abstract", tag=tag
        )
        hits = [
            {"topic_id": topic, "corpus_id": found, "rank": 1, "score": -1.0, "tag": tag}
            for topic, found in FOUND[tag].items()
        ]
        ended = [
            {
                "topic_id": t,
                "outcome": "scored" if t in FOUND[tag] else "failed",
                "note": None,
                "fallback": t in fallbacks,
            }
            for t in QRELS
        ]
        refs[f"run:{tag}"] = publish(store, "run", {"part": (RUNS, hits), "outcomes": (OUTCOMES, ended)}, settings)
        inputs = {"run": refs[f"run:{tag}"], "topics": topics}
        refs[f"scores:{tag}"] = store.build(Request(scores, ScoreSettings(), inputs)).ref
    return refs


def opened(store: Store, refs: Mapping[str, Ref]) -> ReportSource:
    return ReportSource({name: store.open(ref) for name, ref in refs.items()})


def tables(source: ReportSource) -> dict[str, TableBlock]:
    blocks = [block for section in sections(source) for block in section.blocks]
    return {block.name: block for block in blocks if isinstance(block, TableBlock)}


def rows(table: TableBlock) -> dict[str, dict[str, Any]]:
    named = [(next((cell for cell in row if isinstance(cell, Label)), row[0]), row) for row in table.rows]
    return {str(name): dict(zip(table.columns, row, strict=True)) for name, row in named}


@pytest.fixture
def source(store: Store) -> ReportSource:
    return opened(store, publish_edition(store))


@pytest.fixture
def answered() -> Iterator[str]:
    """A measure that another package would register: the share of topics with any result."""
    known = _registry._things  # pyright: ignore[reportPrivateUsage]
    all_measures()

    @measure("answered", label="Answered", tables=("discovery",))
    def found_any(judged: Judged) -> Any:
        """Whether anything relevant was found."""
        return (judged.retrieved > 0).any(axis=1).astype(np.float64)

    yield found_any.__name__
    del known["answered"]


def test_tables_have_the_columns_of_the_registry_in_order(source: ReportSource) -> None:
    found = tables(source)
    assert found["discovery"].columns == (
        "#", "Run", "Recall@100", "Tied with", "Recall@10", "Precision@10", "Precision@100", "Covered", "Topics",
    )  # fmt: skip
    assert found["selection"].columns[2:] == (
        "nDCG@10", "Tied with", "nDCG@30", "nDCG@100", "MRR", "Covered", "Topics",
    )  # fmt: skip
    assert found["discovery_paper"].columns == ("Run", "Recall@10", "Recall@100", "Precision@10", "Precision@100")
    assert found["by_field"].columns == ("Field of study", "Run", "Recall@100", "nDCG@10", "Topics")


def test_values_are_means_over_all_topics(source: ReportSource) -> None:
    found = tables(source)
    first, second = (rows(found["discovery"])[tag] for tag in (FIRST, SECOND))
    assert first["Recall@100"].mean == pytest.approx((0.5 + 0 + 1) / 3)
    assert (first["Covered"], second["Covered"], second["Topics"]) == (3, 2, 3)
    assert second["Recall@100"].mean == pytest.approx(1 / 3)
    assert rows(found["selection_influential"])[FIRST]["MRR"].mean == 1, "topics 1 and 3 have influential references"
    assert rows(found["selection_influential"])[FIRST]["Topics"] == 2
    ((run, change, _, better, equal, worse, common),) = found["discovery_differences"].rows
    assert (str(run), better, equal, worse, common) == (SECOND, 1, 0, 2, 3)
    assert found["discovery_differences"].caption.endswith(f"({FIRST})")
    assert isinstance(change, Change) and change.difference == pytest.approx(-0.5 / 3)
    fields = {(row[0], str(row[1])): row[2:] for row in found["by_field"].rows}
    assert set(fields) == {(field, tag) for field in ("Biology", "Physics") for tag in (FIRST, SECOND)}
    recall, _, topics = fields["Biology", FIRST]
    assert isinstance(recall, Estimate) and (recall.mean, topics) == (0.25, 2)


def test_a_sampled_run_is_compared_on_the_topics_it_has_in_common(store: Store) -> None:
    refs, tag = publish_edition(store), f"{FIRST}-sample2"
    rule = ScoreSettings(sample_topics=2)
    chosen = evaluated_topics(store.open(refs["topics"]), rule)["topic_id"].to_list()
    settings = SystemSettings(
        baseline="title", baseline_version=1, retriever="bm25", field="abstract", tag=tag, sample_topics=2
    )
    hits = [{"topic_id": t, "corpus_id": FOUND[FIRST][t], "rank": 1, "score": -1.0, "tag": tag} for t in chosen]
    ended = [{"topic_id": t, "outcome": "scored", "note": None, "fallback": False} for t in chosen]
    run = publish(store, "run", {"part": (RUNS, hits), "outcomes": (OUTCOMES, ended)}, settings)
    sampled = store.build(Request(scores, rule, {"run": run, "topics": refs["topics"]})).ref
    source = opened(store, refs | {f"run:{tag}": run, f"scores:{tag}": sampled})
    found = tables(source)
    differences = {str(row[0]): row[1:] for row in found["discovery_differences"].rows}
    assert found["discovery_differences"].caption.endswith(f"({FIRST})")
    assert {name: row[-1] for name, row in differences.items()} == {SECOND: 3, tag: 2}
    assert differences[tag][0] == Change(0.0, 1.0)
    shown = rows(found["discovery"])
    assert list(shown) == [FIRST, SECOND, tag], "a sample comes last"
    assert (shown[tag]["#"], shown[tag]["Tied with"], shown[tag]["Topics"]) == (None, None, 2)
    assert [mark.word for mark in shown[tag]["Run"].marks] == ["sample"]
    assert any(tag in warning and "a sample of 2 topics" in warning for warning in compose(source, NAMES).warnings)


def test_the_papers_rows_stand_beside(source: ReportSource) -> None:
    paper = rows(tables(source)["selection_paper"])
    assert len(paper) == 10 and paper["title.dense"]["nDCG@100"] == Estimate(0.2019)


def test_a_new_measure_appears_in_scores_report_and_cli(store: Store, answered: str) -> None:
    refs = publish_edition(store)
    found = tables(opened(store, refs))
    assert found["discovery"].columns[-3:] == ("Answered", "Covered", "Topics")
    assert rows(found["discovery"])[FIRST]["Answered"].mean == pytest.approx(2 / 3)
    assert "Answered" not in found["discovery_paper"].columns + found["selection"].columns
    shown = people_rows(score_rows(store, {f"scores/{FIRST}": refs[f"scores:{FIRST}"]}, "discovery"), "discovery")
    assert str(shown[0]["Answered"]).startswith("0.667 (")


def test_runs_scored_without_a_measure_show_nothing_for_it(store: Store, request: pytest.FixtureRequest) -> None:
    refs = publish_edition(store)
    request.getfixturevalue("answered")
    assert rows(tables(opened(store, refs))["discovery"])[FIRST]["Answered"] == Estimate(None)
    shown = people_rows(score_rows(store, {f"scores/{FIRST}": refs[f"scores:{FIRST}"]}, "discovery"), "discovery")
    assert shown[0]["Answered"] == "-"


def test_a_measure_that_says_no_more_than_its_name_is_shown_last_in_both() -> None:
    known = _registry._things  # pyright: ignore[reportPrivateUsage]
    all_measures()
    measure("A_1", k=1)(lambda judged, k: np.zeros(len(judged.retrieved)))
    try:
        assert list(column_labels("discovery").items())[-1] == ("A_1", "A_1")
        assert list(column_labels("selection"))[-1] == "A_1"
    finally:
        del known["A_1"]


def test_a_run_with_fallbacks_is_shown_without_them(store: Store) -> None:
    found = tables(opened(store, publish_edition(store, {2}, (FIRST,))))
    ((tag, recall, *_, fallbacks, others),) = found["discovery_fallbacks"].rows
    assert (str(tag), fallbacks, others) == (FIRST, 1, 2)
    assert isinstance(tag, Label) and tag.marks[0].word == "1 fallbacks"
    assert isinstance(recall, Estimate) and recall.mean == pytest.approx((0.5 + 1) / 2)
    assert "selection_fallbacks" in found


def test_without_fallbacks_there_is_no_such_table(source: ReportSource) -> None:
    assert not {"discovery_fallbacks", "selection_fallbacks"} & set(tables(source))


def test_without_runs_there_is_no_section(store: Store) -> None:
    assert sections(opened(store, publish_edition(store, tags=()))) == []


def test_the_report_names_its_edition_and_has_its_sections(source: ReportSource) -> None:
    page = compose(source, NAMES)
    assert page.subtitle.startswith(
        "Edition test, made from Semantic Scholar's release 2024-02-06: 3 topics, 9 relevant"
    )
    assert page.subtitle.endswith("2 runs.")
    titles = [section.title for section in page.sections]
    assert titles[:3] == ["Information discovery", "Information selection", "By field of study"]
    assert titles[3] == "Candidates, cost and parts"
    assert titles[-2:] == ["What was left out", "Lineage and settings"] and "Corpus" in titles
    assert page.warnings == ()


def test_the_corpus_section_counts_and_draws(source: ReportSource) -> None:
    page = compose(source, NAMES)
    corpus = next(section for section in page.sections if section.title == "Corpus")
    checklist, *figures = corpus.blocks
    assert isinstance(checklist, TableBlock)
    assert checklist.rows == (("Documents <all>", 40.0, 12_000_000.0, None), ("Maps", None, 1884.0, None))
    assert [figure.name for figure in figures] == ["figure4a", "figure4b", "figure4c", "figure4d"]
    counts = next(section for section in page.sections if section.title == "From surveys to topics").blocks
    by_name = {block.name: block.rows for block in counts if isinstance(block, TableBlock)}
    assert by_name["topic_outcomes"] == (("no_date", 7), ("kept", 3)), "the largest first"
    assert by_name["references_dropped"] == (("late", 2), ("survey", 2)), "equal ones by name"


def test_lineage_lists_every_dataset_with_its_settings(source: ReportSource) -> None:
    left_out, lineage = compose(source, NAMES).sections[-2:]
    (table,) = lineage.blocks
    assert isinstance(table, TableBlock)
    stages = [row[0] for row in table.rows]
    assert sorted(map(str, stages)) == sorted(["run", "run", "scores", "scores", "statistics", "topics"])
    scored = rows(table)["scores"]
    assert f"topics={source.datasets['topics'].ref.digest[:8]}" in scored["Inputs"]
    assert json.loads(str(scored["Settings"]))["seed"] == 42
    assert not lineage.open and left_out.blocks[0].name == "left_out"


def test_dropped_rows_are_listed_by_stage_and_reason(source: ReportSource) -> None:
    (table,) = compose(source, NAMES).sections[-2].blocks
    assert isinstance(table, TableBlock)
    assert table.rows == (("statistics", "late", 1200, 5000, source.datasets["statistics"].ref.key[:8]),)


def test_the_stage_writes_every_form_and_the_trec_files(store: Store) -> None:
    refs = publish_edition(store)
    dataset = store.open(store.build(Request(report, NAMES, refs)).ref)
    names = {file.path for file in dataset.manifest.files}
    assert {"report.html", "report.md", "report.json", "figures/figure4a.svg", "trec/qrels.txt"} <= names
    found = json.loads(dataset.path("report.json").read_bytes())["tables"]
    assert {f"tables/{name}.csv" for name in found} == {name for name in names if name.startswith("tables/")}
    with dataset.path("tables/discovery.csv").open() as file:
        line = next(csv.DictReader(file))
    shown = dict(zip(found["discovery"]["columns"], found["discovery"]["rows"][0], strict=True))
    assert (line["Run"], float(line["Recall@10"])) == (FIRST, shown["Recall@10"][0])
    assert "Arena &lt;1&gt;" in dataset.path("report.html").read_text()
    assert dataset.path("trec/qrels.txt").read_text().splitlines()[0].split() == ["1", "0", "11", "2"]
    assert dataset.manifest.counts.kept == 2


def test_warnings_say_what_makes_figures_unfit(store: Store, tmp_path: Path) -> None:
    settings = SystemSettings(
        baseline="storm", baseline_version=1, retriever="bm25", field="abstract", tag="storm+stand-in", limit_topics=3,
        model={"provider": "stand-in", "model": "stand-in"},
    )  # fmt: skip
    refs = publish_edition(store, tags=())
    ended = [{"topic_id": t, "outcome": "empty", "note": None, "fallback": False} for t in QRELS]
    refs["run:storm+stand-in"] = publish(store, "run", {"part": (RUNS, []), "outcomes": (OUTCOMES, ended)}, settings)
    inputs = {"run": refs["run:storm+stand-in"], "topics": refs["topics"]}
    refs["scores:storm+stand-in"] = store.build(Request(scores, ScoreSettings(), inputs)).ref
    stand_in, limit = compose(opened(store, refs), NAMES).warnings
    assert "stand-in" in stand_in and "first 3 topics" in limit
