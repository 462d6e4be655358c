"""Sheets for people: what is on them, what cannot get out of them, and what the filled ones say."""

import base64
import csv
import re
from pathlib import Path

import pytest
from scipy.stats import norm

from schemas.errors import BadInput
from schemas.manifest import Ref
from schemas.mindmap import dump_tree, load_any
from schemas.tables.figures import FIGURES
from schemas.tables.mindmaps import MINDMAPS
from schemas.tables.papers import PAPERS
from schemas.tables.surveys import SURVEYS
from tasks.audit.mindmaps import mindmap_sheet
from tasks.audit.score import score_answers, wilson
from tasks.audit.sheet import HEAD, Item, Sheet, SheetQuestion, Text, read_answers, to_html, write_sheet
from tasks.audit.surveys import survey_sheet
from tasks.corpus.figures.picture import check_picture
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus
from tests.corpus.figures.conftest import png

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path / "root")


def open_(corpus: Corpus, ref: Ref) -> Dataset:
    return corpus.store.open(ref)


def edition_of_surveys(corpus: Corpus, n: int) -> tuple[Dataset, Dataset]:
    surveys = [{"corpus_id": i, "title": f"Survey {i}", "accepted": i % 2 == 0, "selector": "rules"} for i in range(n)]
    papers = [{"corpus_id": i, "title": f"Survey {i}", "abstract": f"Abstract {i}"} for i in range(n)]
    papers[0] |= {"title": EVIL, "abstract": EVIL, "url": "javascript:alert(3)"}
    return tuple(
        open_(corpus, ref)
        for ref in (corpus.given("surveys", {SURVEYS: surveys}), corpus.given("papers", {PAPERS: papers}, buckets=2))
    )  # type: ignore[return-value]


def test_a_sample_depends_on_the_seed_alone_and_holds_accepted_surveys(corpus: Corpus) -> None:
    surveys, papers = edition_of_surveys(corpus, 100)
    first, again, other = (survey_sheet("e", surveys, papers, 25, seed) for seed in (42, 42, 43))
    ids = [int(item.item) for item in first.items]
    assert len(set(ids)) == 25 and all(i % 2 == 0 for i in ids)
    assert first == again != other
    assert len(survey_sheet("e", surveys, papers, 1000, 42).items) == 50
    assert "25 of the 50 papers of edition e" in first.lead and "by rules" in first.lead
    with pytest.raises(BadInput, match="nothing to draw"):
        survey_sheet("e", open_(corpus, corpus.accepted(rejected=[1])), papers, 25, 42)


def test_foreign_text_stays_text(corpus: Corpus) -> None:
    surveys, papers = edition_of_surveys(corpus, 2)
    page = to_html(survey_sheet("e", surveys, papers, 25, 42))
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<script>") == 1 and "<img" not in page and "javascript:" not in page
    policy = re.search(r"script-src 'sha256-([^']+)'", page)
    script = re.search(r"<script>(.*)</script>", page, re.S)
    assert policy and script and len(base64.b64decode(policy[1])) == 32


def test_maps_stand_beside_their_pictures(corpus: Corpus) -> None:
    picture = png(30, 20)
    digest = check_picture(picture).image.sha256
    tree = dump_tree(load_any({"Birds": {"Owls": None, EVIL: None}}))
    maps = [
        {
            "topic_id": 1,
            "title": "One",
            "tree": tree,
            "caption": EVIL,
            "image_sha256": digest,
            "model": "m",
            "source": "x",
        },
        {"topic_id": 2, "title": "Two", "tree": tree, "source": "file"},
    ]
    figures = [{"corpus_id": i, "figure": "f", "image_sha256": digest, "image": picture} for i in (1, 2, 9)]
    given = open_(corpus, corpus.given("mindmaps", {MINDMAPS: maps}))
    sheet = mindmap_sheet("e", given, open_(corpus, corpus.given("figures", {FIGURES: figures}, buckets=3)), 25, 42)
    page = to_html(sheet)
    assert f"data:image/png;base64,{base64.b64encode(picture).decode()}" in page
    assert page.count("holds no such picture") == 1
    drawings = [base64.b64decode(found).decode() for found in re.findall(r"image/svg\+xml;base64,([\w+/=]+)", page)]
    assert len(drawings) == 2 and all("3 nodes, 2 levels" in svg and "<script" not in svg for svg in drawings)
    assert "read by file, m" in sheet.lead
    assert [item.parts[1] for item in mindmap_sheet("e", given, None, 25, 42).items]  # no figures: still a sheet


SHEET = Sheet(
    "audit-x",
    "X",
    "Lead",
    (SheetQuestion("survey", "?"), SheetQuestion("other", "?")),
    tuple(Item(str(n), f"Title {n}", (Text("t", "x"),)) for n in range(6)),
)


def test_an_empty_sheet_is_never_overwritten_and_a_filled_one_is_counted(tmp_path: Path) -> None:
    page, table = write_sheet(SHEET, tmp_path)
    assert page.name == "audit-x.html"
    with pytest.raises(BadInput, match="perhaps filled"):
        write_sheet(SHEET, tmp_path)
    rows = list(csv.reader(table.read_text().splitlines()))
    assert rows[0] == [*HEAD, "survey", "other"]
    words = [("Yes", "no"), (" y", "0"), ("no", ""), ("unsure", ""), ("", ""), ("1", "N")]
    filled = [rows[0], *([*row[:3], *pair] for row, pair in zip(rows[1:], words, strict=True)), ["", ""]]
    table.write_text("\ufeff" + "\n".join(",".join(row) for row in filled))
    answers = read_answers(table)
    assert answers.sheet == "audit-x"
    survey, other = score_answers(answers)
    assert (survey.ours.yes, survey.ours.judged, survey.unsure, survey.unanswered) == (3, 4, 1, 1)
    assert survey.paper and survey.paper.share == 0.92
    assert (other.ours.yes, other.ours.judged, other.unanswered, other.paper) == (0, 3, 3, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the columns"),
        ("sheet,number,item\nx,1,2\n", "expected the columns"),
        ("sheet,number,item,survey\n", "rows of one sheet"),
        ("sheet,number,item,survey\na,1,1,yes\nb,1,1,no\n", "rows of one sheet"),
        ("sheet,number,item,survey\na,1,1,yes\na,2,2,perhaps\n", "row 3, survey: 'perhaps' is no answer"),
    ],
)
def test_what_is_no_filled_sheet_says_so(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(BadInput, match=message):
        read_answers(tmp_path / "a.csv")


def test_intervals_are_wilsons() -> None:
    z = norm.ppf(0.975)
    for yes, judged in ((23, 25), (20, 25), (15, 25), (0, 3), (25, 25)):
        p = yes / judged
        centre, half = p + z * z / (2 * judged), z * ((p * (1 - p) + z * z / (4 * judged)) / judged) ** 0.5
        found = wilson(yes, judged)
        assert (found.low, found.high) == pytest.approx(
            ((centre - half) / (1 + z * z / judged), (centre + half) / (1 + z * z / judged)), abs=1e-9
        )
    shown = [tuple(round(100 * x) for x in wilson(yes, 25)[3:]) for yes in (23, 20, 15)]
    assert shown == [(75, 98), (61, 91), (41, 77)]
