"""The synthetic release is deterministic, extends smaller ones, and is as varied as a real one."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.demo.papers import PaperGenerator
from tasks.demo.release import SyntheticSettings, write_release
from tasks.release.mirror import open_release

PAPERS = 1200


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    write_release(folder, SyntheticSettings(papers=PAPERS, broken=False))
    return folder


def records(folder: Path, dataset: str) -> list[dict[str, Any]]:
    paths = sorted((folder / "2026-01-06" / dataset).iterdir())
    return [json.loads(line) for path in paths for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_equal_settings_write_equal_bytes(tmp_path: Path, written: Path) -> None:
    write_release(tmp_path, SyntheticSettings(papers=PAPERS, broken=False))
    first, second = (
        {name: dataset.digest for name, dataset in open_release(folder, "2026-01-06", tmp_path / "cache").items()}
        for folder in (written, tmp_path)
    )
    assert first == second


def test_another_seed_writes_other_papers(tmp_path: Path, written: Path) -> None:
    write_release(tmp_path, SyntheticSettings(papers=50, seed=7, broken=False))
    titles = {record["title"] for record in records(tmp_path, "papers")}
    assert len(titles & {record["title"] for record in records(written, "papers")}) < 5


def test_a_larger_release_begins_with_the_same_papers(tmp_path: Path, written: Path) -> None:
    lines = write_release(tmp_path, SyntheticSettings(papers=300, broken=False, files=3))
    assert lines["papers"] == 300
    for dataset, key in (("papers", "corpusid"), ("citations", "citationid"), ("s2orc_v2", "corpusid")):
        large = {record[key]: record for record in records(written, dataset)}
        small = records(tmp_path, dataset)
        assert len(small) == lines[dataset]
        assert all(large[record[key]] == record for record in small)


def test_the_papers_are_as_varied_as_real_ones(written: Path) -> None:
    papers = {record["corpusid"]: record for record in records(written, "papers")}
    assert len(papers) == PAPERS
    reviews = {i for i, record in papers.items() if record["publicationtypes"] == ["Review"]}
    titled = {i for i, record in papers.items() if "survey" in record["title"].lower()}
    assert 50 <= len(reviews) <= 100
    assert reviews < titled
    dates = Counter((r["year"] is not None, r["publicationdate"] is not None) for r in papers.values())
    assert set(dates) == {(True, True), (True, False), (False, False)}
    edges = records(written, "citations")
    assert all(record["citingcorpusid"] in papers for record in edges)
    assert all(record["citedcorpusid"] in papers for record in edges if record["citedcorpusid"] is not None)
    assert {record["isinfluential"] for record in edges} == {True, False}
    cited = {i: {r["citedcorpusid"] for r in edges if r["citingcorpusid"] == i} for i in reviews}
    assert any(found & reviews for found in cited.values())
    assert any(not found for found in cited.values())
    later = [
        (papers[i]["year"], papers[j]["year"])
        for i, found in cited.items()
        for j in found
        if j is not None and papers[i]["year"] and papers[j]["year"] and papers[j]["year"] > papers[i]["year"]
    ]
    assert 0 < len(later) < sum(map(len, cited.values())) / 4


def test_full_texts_are_linked_by_both_paths_which_sometimes_disagree(written: Path) -> None:
    edges = {(record["citingcorpusid"], record["citedcorpusid"]) for record in records(written, "citations")}
    matched: set[tuple[int, int]] = set()
    for record in records(written, "s2orc_v2"):
        spans = json.loads(record["bibliography"]["annotations"]["bib_entry"] or "[]")
        spans += json.loads(record["body"]["annotations"]["bib_ref"] or "[]")
        ids = [span["attributes"].get("matched_paper_id") for span in spans]
        matched |= {(record["corpusid"], int(i)) for i in ids if i is not None}
    assert len(matched & edges) > 5 * len(matched - edges) > 0
    assert edges - matched


def test_a_survey_shares_more_words_with_its_references_than_with_others(written: Path) -> None:
    """Retrieval depends on this: words of a survey's title occur more often in the papers that it cites."""
    generator = PaperGenerator(seed=42, full_text_share=1, paragraphs=1)
    surveys = [paper for n in range(400) if (paper := generator.paper(n)).head.kind == "survey" and paper.references]
    assert surveys
    inside, outside = 0, 0
    for survey in surveys:
        words = {word for word in survey.head.title.lower().split() if len(word) > 6} - {"survey", "comprehensive"}
        cited = [generator.paper(reference.head.number) for reference in survey.references]
        others = [generator.paper(reference.head.number + 1) for reference in survey.references]
        for papers, near in ((cited, True), (others, False)):
            hits = sum(any(word in (paper.abstract or "").lower() for word in words) for paper in papers)
            inside, outside = inside + hits * near, outside + hits * (not near)
    assert inside > 2 * outside


def test_no_file_is_empty_however_small_the_release(tmp_path: Path) -> None:
    write_release(tmp_path, SyntheticSettings(papers=30, files=20))
    sizes = {path: len(gzip.decompress(path.read_bytes())) for path in tmp_path.glob("*/*/*")}
    assert {path.parent.name for path in sizes} == {"papers", "abstracts", "citations", "s2orc_v2"}
    assert all(sizes.values())
    assert len(sizes) < 80


@pytest.mark.parametrize("full_text", ["s2orc", "s2orc_v2"])
def test_broken_lines_come_before_the_first_record(tmp_path: Path, full_text: Any) -> None:
    lines = write_release(tmp_path, SyntheticSettings(papers=40, files=2, full_text=full_text))
    plain = write_release(tmp_path / "plain", SyntheticSettings(papers=40, files=2, full_text=full_text, broken=False))
    assert {name: lines[name] - plain[name] for name in lines} == dict.fromkeys(lines, 7)
    assert full_text in lines
