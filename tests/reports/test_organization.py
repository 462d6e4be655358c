"""The organization section: its tables say what was scored, and drawings are well-formed whatever the labels hold."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.pipeline.summaries import people_tree_rows, tree_rows
from schemas.manifest import Ref
from schemas.mindmap import Tree, dump_tree, load_any, load_tree
from schemas.settings import EncoderSettings
from schemas.tables.mindmaps import MINDMAPS
from schemas.tables.runs import OUTCOMES
from schemas.tables.tree_scores import HEADING_MATCHES, TREE_SUMMARIES
from schemas.tables.trees import TREES
from tasks.organization.scores import TreeScoreSettings
from tasks.reports.blocks import Estimate, FigureBlock, Label, Section, TableBlock
from tasks.reports.sections.organization import sections
from tasks.reports.source import ReportSource
from tasks.reports.treedrawing import MOST_ROWS, draw_trees
from tasks.store.parquet import write_table
from tasks.store.stage import Stage
from tasks.store.store import Request
from tasks.store.workspace import Workspace
from tests.corpus.conftest import Corpus

GOLD, BUILT = load_any({"Birds": {"Owls": None}}), load_any({"Aves": {"Night owls": None, "Ducks": None}})
MEASURES = {"hsr": 0.5, "her_fallback": 0.6, "tsd_0.5": 1.0, "tsd_0.8": 2.0, "ted": 3.0, "her_fallback_no_gold": 0.25}
MATCH = {"topic_id": 7, "side": "gold", "label": "Owls", "match": "Night owls", "similarity": 0.9}
SVG = "{http://www.w3.org/2000/svg}"

hostile = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=90)


def give_scores(
    corpus: Corpus, tag: str, values: dict[str, float], settings: TreeScoreSettings, fallbacks: int = 0
) -> Ref:
    ended = [
        {"topic_id": topic, "outcome": "scored", "note": None, "fallback": topic < fallbacks} for topic in range(4)
    ]
    summaries = [
        {"tag": tag, "measure": m, "topics": 4, "covered": 3, "mean": v, "low": v - 0.1, "high": v + 0.1}
        for m, v in values.items()
    ]

    def write(work: Workspace[TreeScoreSettings]) -> None:
        for shard in work.pending(["all"]):
            with shard:
                for table, rows in (
                    (TREE_SUMMARIES, summaries),
                    (HEADING_MATCHES, [MATCH | {"tag": tag}]),
                    (OUTCOMES, ended),
                ):
                    content = pa.Table.from_pylist(rows, table.arrow)
                    write_table(shard.file(f"{table.name}-00000.parquet"), table, content)

    return corpus.store.build(Request(Stage("tree_scores", 1, TreeScoreSettings, write), settings, {})).ref


@pytest.fixture
def source(tmp_path: Path) -> ReportSource:
    corpus = Corpus(tmp_path / "root")
    gold = {"topic_id": 7, "title": "A <b>", "tree": dump_tree(GOLD), "source": "file"}
    refs = {"mindmaps": corpus.given("mindmaps", {MINDMAPS: [gold]})}
    for seed, (tag, normalised) in enumerate([("single.oracle", 0.9), ("themes.oracle", 0.4)]):
        settings = TreeScoreSettings(encoder=EncoderSettings(model="all-MiniLM-L6-v2"), seed=seed)
        refs[f"tree_scores:{tag}"] = give_scores(corpus, tag, MEASURES | {"tsd_normalised": normalised}, settings)
        tree = {"tag": tag, "topic_id": 7, "outcome": "scored", "tree": dump_tree(BUILT)}
        refs[f"trees:{tag}"] = corpus.given("organize", {TREES: [tree]})
    return ReportSource({name: corpus.store.open(ref) for name, ref in refs.items()})


def table(section: Section, name: str) -> TableBlock:
    return next(block for block in section.blocks if isinstance(block, TableBlock) and block.name == name)


def test_tables_hold_means_with_intervals_beside_the_papers(source: ReportSource) -> None:
    scores, drawings = sections(source)
    found = table(scores, "organization")
    rows = {str(row[1]): dict(zip(found.columns, row, strict=True)) for row in found.rows}
    assert list(rows) == ["themes.oracle", "single.oracle"] and found.rows[0][2] == Estimate(0.4, 0.4 - 0.1, 0.5, 4)
    assert not found.best and "HSR" not in found.leaders, "large trees have a high HSR: it is never set bold"
    themes = rows["themes.oracle"]
    assert (themes["HSR"], themes["TSD"]) == (Estimate(0.5, 0.4, 0.6, 4), Estimate(2.0, 1.9, 2.1, 4))
    assert (themes["Covered"], themes["Topics"], themes["Heading encoder"]) == (3, 4, "all-MiniLM-L6-v2")
    assert "1 of 1 mind-maps come from a file" in found.note
    assert "all-MiniLM-L6-v2 stands in for paraphrase-MiniLM-L6-v2" in found.note and "HER is empty" in found.note
    assert themes["HER (rules)"] == Estimate(0.6, 0.5, 0.7, 4) and "HER" not in themes, "a column without value"
    paper = table(scores, "organization_paper")
    assert (
        Label("Clustering · the survey's references", "clustering.oracle"),
        Estimate(0.6074),
        Estimate(0.2104),
        Estimate(45.69),
    ) in paper.rows
    assert table(scores, "organization_thresholds").columns == ("System", "0.5", "0.8")
    (named, _) = table(scores, "organization_entities").rows
    assert named[1:5] == ("HER (rules)", Estimate(0.6, 0.5, 0.7, 4), 4, 0.25) and named[5] == pytest.approx(0.7)
    assert not drawings.open and drawings.lead.startswith("Trees of themes.oracle")


def test_a_system_that_used_fallbacks_is_marked(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "root")
    encoder, values = EncoderSettings(model="all-MiniLM-L6-v2"), MEASURES | {"tsd_normalised": 0.5}
    refs = {
        f"tree_scores:{tag}": give_scores(
            corpus, tag, values, TreeScoreSettings(encoder=encoder, seed=fallbacks), fallbacks
        )
        for tag, fallbacks in (("few_shot.oracle", 3), ("single.oracle", 0))
    }
    gold = {"topic_id": 7, "title": "A", "tree": dump_tree(GOLD), "source": "file"}
    refs["mindmaps"] = corpus.given("mindmaps", {MINDMAPS: [gold]})
    slots = {f"tree_scores/{name.rpartition(':')[2]}": ref for name, ref in refs.items() if ":" in name}
    named = {"few_shot.oracle (3 fallbacks)", "single.oracle"}
    assert {row["system"] for row in people_tree_rows(tree_rows(corpus.store, slots))} == named
    for tag in ("few_shot.oracle", "single.oracle"):
        tree = {"tag": tag, "topic_id": 7, "outcome": "scored", "tree": dump_tree(BUILT)}
        refs[f"trees:{tag}"] = corpus.given("organize", {TREES: [tree]})
    source = ReportSource({name: corpus.store.open(ref) for name, ref in refs.items()})
    labels = [row[1] for row in table(sections(source)[0], "organization").rows]
    words = {str(label): [mark.word for mark in label.marks] for label in labels if isinstance(label, Label)}
    assert words == {"few_shot.oracle": ["3 fallbacks"], "single.oracle": []}


def test_drawings_mark_the_headings_that_met(source: ReportSource) -> None:
    (figure,) = sections(source)[1].blocks
    assert isinstance(figure, FigureBlock) and (figure.name, figure.caption) == ("mindmap-7", "A <b>")
    texts = [text.text for text in ElementTree.fromstring(figure.svg).iter(f"{SVG}text")]
    assert texts == [
        "Gold: 2 nodes, 1 matched", "Birds", "● Owls",
        "Built: 3 nodes, 1 matched", "Aves", "● Night owls", "Ducks",
    ]  # fmt: skip


def test_without_scored_trees_there_is_no_section() -> None:
    assert sections(ReportSource({})) == []


@given(st.lists(hostile, min_size=1, max_size=5), st.lists(hostile, min_size=1, max_size=5))
def test_any_labels_make_well_formed_svg(golden: list[str], labels: list[str]) -> None:
    trees = [load_tree([Tree(label=label or "x", children=[]) for label in [*side, "x"]]) for side in (golden, labels)]
    document = ElementTree.fromstring(draw_trees(*trees, matches={golden[0]: labels[0]}))
    assert {element.tag.removeprefix(SVG) for element in document.iter()} <= {"svg", "rect", "text", "path", "style"}


def test_large_and_deep_trees_are_cut() -> None:
    chain = Tree(label="deep", children=[])
    for _ in range(199):
        chain = Tree(label="deep", children=[chain])
    document = ElementTree.fromstring(draw_trees(load_tree(chain), GOLD, {}))
    texts = [text.text for text in document.iter(f"{SVG}text")]
    assert len(texts) == MOST_ROWS + 1 + 1 + 2 + 1 and "and 110 more nodes" in texts
    width = float(document.attrib["width"])
    assert all(float(text.attrib["x"]) < width for text in document.iter(f"{SVG}text"))
