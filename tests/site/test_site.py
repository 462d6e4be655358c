"""The site: complete, correct, downloadable, and safe from what papers and models wrote."""

import csv
import itertools
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pytest
from scipy import stats

from flows.cli import app
from schemas.errors import UsageError
from tasks.exports.edition import open_edition
from tasks.site.site import write_site
from tasks.store.store import Store
from tests.site.conftest import FIRST_SET, NEW, OLD, OURS, THEIRS, TOPICS, Parsed, Site
from tests.site.synthetic import HOSTILE, RELEVANT, publish_runs, record

ALLOWED = {"site.js", "compare.js"}


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.long
def test_each_link_leads_to_a_page_or_file_of_the_site_or_to_https(written: Site) -> None:
    pages = 0
    for path, page in written.pages():
        pages += 1
        for tag, attributes in page.tags:
            where = attributes.get("href") or attributes.get("src") or ""
            if tag not in ("a", "img", "script", "link") or where.startswith(("https://", "data:", "#")):
                continue
            assert (path.parent / unquote(where.partition("#")[0])).is_file(), f"{path}: {where}"
    assert pages > TOPICS + 40


def test_foreign_text_is_never_markup(written: Site) -> None:
    for path, page in written.pages():
        scripts = [attributes.get("src") for tag, attributes in page.tags if tag == "script"]
        assert {Path(src or "inline").name for src in scripts} <= ALLOWED, path
        assert not [tag for tag, _ in page.tags if tag in ("i", "iframe", "object")], path
        assert not [a for _, attributes in page.tags for a in attributes if a.startswith("on") or a == "style"], path
        assert "hidden@example.org" not in path.read_text(), "the contact of a system from outside is never shown"
    topic = Parsed.of(written.folder / NEW / "topics" / "1.html")
    assert f"Survey 1 {HOSTILE}" in topic.text and f"Paper 1000 {HOSTILE}" in topic.text
    assert "<script" not in (written.folder / NEW / "compare.js").read_text().replace(json.dumps(HOSTILE)[1:-1], "")


def holm(p_values: Sequence[Any]) -> list[float]:
    order = np.argsort(p_values)
    steps = [(len(p_values) - at) * p_values[place] for at, place in enumerate(order)]
    corrected = np.minimum(1, np.maximum.accumulate(steps))
    return [float(corrected[list(order).index(place)]) for place in range(len(p_values))]


@pytest.mark.parametrize("task", ["discovery", "selection"])
def test_ties_equal_a_recomputation_with_scipy_from_the_exported_scores(written: Site, task: str) -> None:
    rows = table(written.folder / NEW / "tables" / f"{task}-{task}.csv")
    scores = table(written.folder / NEW / "files" / f"{task}-scores.csv")
    assert len(scores) == TOPICS and len(rows) == 4
    values = {row["Run"]: np.array([float(line[row["Run"]]) for line in scores]) for row in rows}
    pairs = list(itertools.combinations(values, 2))
    p_values = [
        stats.permutation_test(
            (values[a], values[b]), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples",
            n_resamples=9999, vectorized=True, rng=np.random.default_rng(1),
        ).pvalue
        for a, b in pairs
    ]  # fmt: skip
    tied = {pair for pair, p in zip(pairs, holm(p_values), strict=True) if p >= 0.05}
    assert 0 < len(tied) < len(pairs), "some are tied, and some are not"
    place = {tag: number for number, tag in enumerate(values, 1)}
    for row in rows:
        told: set[int] = set()
        for part in row["Tied with"].split(", ") if row["Tied with"] != "none" else ():
            low, _, high = part.partition("-")
            told |= set(range(int(low), int(high or low) + 1))
        expected = {place[b if a == row["Run"] else a] for a, b in tied if row["Run"] in (a, b)}
        assert told == expected, row["Run"]


def test_runs_are_ranked_under_names_that_people_say(written: Site) -> None:
    text = " ".join(Parsed.of(written.folder / NEW / "discovery.html").text.split())
    rows = table(written.folder / NEW / "tables" / "discovery-discovery.csv")
    names = dict(zip([*OURS, THEIRS], ("Title · BM25", "Feedback · BM25", "Zero-shot · BM25", "agent 1"), strict=True))
    places = [text.index(names[row["Run"]]) for row in rows]
    assert places == sorted(places) and [row["#"] for row in rows] == ["1", "2", "3", "4"]
    means = [float(row["Recall@100"]) for row in rows]
    assert means == sorted(means, reverse=True) and means[0] > means[-1]
    assert "stand-in" in text and "submitted, own tools" in text


def test_facets_say_what_rows_can_be_filtered_by(written: Site) -> None:
    page = Parsed.of(written.folder / NEW / "discovery.html")
    found = [json.loads(value) for _, attributes in page.tags if (value := attributes.get("data-facets"))]
    assert sorted(row[2:] for row in found) == [
        ["none", "desk only", "ours"],
        ["none", "desk only", "ours"],
        ["none", "own tools", "submitted"],
        ["stand-in", "desk only", "ours"],
    ]


def test_a_topics_page_shows_what_each_run_found_and_missed(written: Site) -> None:
    run = open_edition(written.store.root, NEW).run(OURS[0])[3]
    rows = {row["Run"]: row for row in table(written.folder / NEW / "tables" / "topics-3-runs.csv")}
    ranks = {paper: rank for rank, (paper, _) in enumerate(run, 1)}
    found = sorted((ranks[3000 + n], n + 1) for n in range(RELEVANT) if 3000 + n in ranks)
    assert rows[OURS[0]]["Found references"] == ", ".join(f"{number} (rank {rank})" for rank, number in found)
    assert int(rows[OURS[0]]["Found"]) == len(found)
    references = table(written.folder / NEW / "tables" / "topics-3-references.csv")
    assert [row["Label"] for row in references] == ["influential"] * 3 + ["cited"] * 9
    links = [attributes.get("href") for _, attributes in Parsed.of(written.folder / NEW / "topics" / "3.html").tags]
    assert "https://api.semanticscholar.org/CorpusID:3000" in links


@pytest.mark.parametrize("tag", [OURS[0], THEIRS], ids=["plug-in", "served"])
def test_a_topics_page_shows_each_runs_queries_with_their_hits(tag: str, written: Site) -> None:
    run = open_edition(written.store.root, NEW).run(tag)[3]
    page = (written.folder / NEW / "topics" / "3.html").read_text()
    trails = re.findall(
        r'<details class="small">\n<summary>(.*?)</summary>\n<p class="note">(.*?)</p>\n<ol>\n(.*?)</ol></details>',
        page,
        re.DOTALL,
    )
    assert not any("<a" in summary for summary, _, _ in trails), "a link cannot be reached inside a summary"
    steps = next(steps for _, system, steps in trails if tag in system)
    query, reading = re.findall(r"<li>(.*?)</li>", steps)
    assert query.startswith("bm25 (20 of 20, 2 not shown): survey 3 ")
    assert reading.startswith("read 1 document<br>") and 'CorpusID:3000"' in reading
    assert [int(paper) for paper in re.findall(r'CorpusID:(\d+)"', query)] == [paper for paper, _ in run[:10]]
    relevant = [paper for paper, _ in run[:10] if paper // 1000 == 3]
    assert re.findall(r">#(\d+) Paper (\d+)", query) == [(str(paper - 3000 + 1), str(paper)) for paper in relevant]


def test_downloads_hold_the_runs_and_all_scores(written: Site) -> None:
    files = written.folder / NEW / "files"
    lines = (files / "runs" / f"{OURS[0]}.txt").read_text().splitlines()
    assert len(lines) == 20 * TOPICS and lines[0].split()[5] == OURS[0]
    assert len(pl.read_parquet(files / "runs" / f"{OURS[0]}.parquet")) == 20 * TOPICS
    values = pl.read_parquet(files / "scores.parquet")
    assert set(values["tag"].unique()) == {*OURS, THEIRS} and {"graded", "influential"} == set(
        values["labels"].unique()
    )


def test_the_command_of_a_run_is_one_that_the_command_line_takes(written: Site) -> None:
    text = (written.folder / NEW / "systems" / "zero_shot.bm25.abstract+stand-in.html").read_text()
    command = text.partition("<pre>")[2].partition("</pre>")[0]
    words = shlex.split(command)
    assert words[0] == "arena" and "zero_shot" in words and NEW in words
    function, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    assert function.__name__ == "discovery" and bound.arguments["settings"].baselines == ("zero_shot",)


def test_questions_queries_and_time_have_their_pages(written: Site) -> None:
    folder = written.folder / NEW
    (first, *_) = sorted((folder / "questions").glob("*.html"))
    assert "Trajectory of" in first.read_text() or "Answers" in first.read_text()
    assert len(list((folder / "questions").glob("*.html"))) == 4
    assert len(list((folder / "search" / FIRST_SET / "queries").glob("*.html"))) == 6
    changes = table(written.folder / "tables" / f"over-time-changes-{OLD}-{NEW}.csv")
    assert {row["Run"] for row in changes} == set(OURS), "the submission is in one edition only"
    assert {(row["Unchanged topics"], row["New topics"]) for row in changes} == {(str(TOPICS - 4), "4")}
    fresh = sorted((folder / "tables").glob("fresh-*.csv"))
    assert fresh and all(int(row["Fresh topics"]) + int(row["Older topics"]) == TOPICS for row in table(fresh[0]))


def test_a_second_site_takes_the_place_of_the_first_and_leaves_other_files(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    record(store, OLD, publish_runs(store, 6, OURS[:2]))
    out = tmp_path / "out"
    out.mkdir()
    (out / "note.txt").write_text("mine")
    write_site(store, [OLD], out)
    (out / OLD / "topics" / "99.html").write_text("of an earlier site")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "99.html"}
    write_site(store, [OLD], out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, "equal stores, equal bytes"
    with pytest.raises(UsageError, match="no edition"):
        write_site(store, [OLD, NEW], out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, "it stays"


def test_an_edition_without_runs_has_a_page(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    record(store, OLD, {name: ref for name, ref in publish_runs(store, 3, []).items() if name == "topics"})
    assert write_site(store, [OLD], tmp_path / "out").editions == (OLD,)
    assert "3 topics, 0 runs" in (tmp_path / "out" / OLD / "index.html").read_text()
