"""The stage `mindmaps`: which transcribed maps are kept, and why the others are dropped."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from schemas.errors import ReleaseError
from schemas.manifest import Ref
from schemas.mindmap import dump_tree, load_any, parse_tree, tree_labels
from schemas.tables.topics import TOPICS
from tasks.corpus.mindmap_files import open_maps, read_transcripts
from tasks.corpus.mindmaps import MindmapSettings, mindmaps
from tasks.store.dataset import Dataset
from tasks.store.store import Request
from tests.corpus.conftest import Corpus

SMALL = {"name": "Birds", "children": [{"name": "Owls", "children": []}]}
LARGE = {"Birds": {"Owls": None, "Ducks": ["Eider", "Teal"]}}


@pytest.fixture
def topics(corpus: Corpus) -> Ref:
    titles = {1: "Birds: A Survey", 2: "Fish, a survey", 3: "Trees", 4: "Trees!", 5: "Stones"}
    outcomes = {2: "no_references"}
    rows = [{"topic_id": t, "title": title, "outcome": outcomes.get(t, "kept")} for t, title in titles.items()]
    return corpus.given("topics", {TOPICS: rows})


def write(path: Path, records: list[object]) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


def build(corpus: Corpus, topics: Ref, path: Path, **settings: int) -> Dataset:
    inputs = {"topics": topics, "maps": open_maps(path, "2026-01-06")}
    return corpus.store.open(corpus.store.build(Request(mindmaps, MindmapSettings(**settings), inputs)).ref)


def reasons(dataset: Dataset) -> dict[int, str]:
    return dict(pl.read_parquet(dataset.files("quarantine")).select("line", "reason").iter_rows())


def test_the_largest_map_of_each_survey_is_kept_with_its_origin(corpus: Corpus, topics: Ref, tmp_path: Path) -> None:
    path = write(
        tmp_path / "maps.jsonl",
        [
            {"corpusid": 1, "tree": SMALL, "file": "img/a.png"},
            {"corpusid": 1, "tree": LARGE, "file": "img/b.png", "caption": "A map"},
            {"corpusid": 1, "tree": {"Other": {"Owls": None, "Ducks": ["Eider", "Teal"]}}},
            {"corpusid": None, "survey_title": "FISH -- a  survey", "tree": json.dumps(SMALL)},
        ],
    )
    dataset = build(corpus, topics, path)
    rows = pl.read_parquet(dataset.files()).rows(named=True)
    assert [(row["topic_id"], row["title"], row["nodes"], row["depth"]) for row in rows] == [
        (1, "Birds: A Survey", 5, 3),
        (2, "Fish, a survey", 2, 2),
    ]
    assert tree_labels(parse_tree(rows[0]["tree"])) == ["Birds", "Owls", "Ducks", "Eider", "Teal"]
    assert (rows[0]["figure"], rows[0]["caption"], rows[0]["source"], rows[0]["model"]) == (
        "img/b.png", "A map", "file", None,
    )  # fmt: skip
    assert reasons(dataset) == {1: "smaller_map", 3: "smaller_map"}
    counts = dataset.manifest.counts
    assert (counts.read, counts.kept, counts.dropped) == (4, 2, {"smaller_map": 2})


def test_every_line_without_a_valid_map_is_quarantined_with_a_reason(
    corpus: Corpus, topics: Ref, tmp_path: Path
) -> None:
    deep: object = "leaf"
    for _ in range(250):
        deep = {"node": deep}
    lines: dict[str, object] = {
        "no_tree": {"corpusid": 1, "tree": None},
        "bad_tree": {"corpusid": 1, "tree": {" ": {"": None}}},
        "not_json": '{"corpusid": 1, "tree": ' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}",
        "not_object": "[1]",
        "too_small": {"corpusid": 1, "tree": {"lone": None}},
        "too_flat": {"corpusid": 1, "tree": ["a", "b"]},
        "too_deep": {"corpusid": 1, "tree": deep},
        "long_label": {"corpusid": 1, "tree": {"x" * 100_000: {"a": None}}},
        "unknown_survey": {"corpusid": 9, "tree": SMALL},
        "bad_corpusid": {"corpusid": "one", "tree": SMALL},
        "wrong_type:caption": {"corpusid": 1, "tree": SMALL, "caption": 7},
    }
    dataset = build(corpus, topics, write(tmp_path / "maps.jsonl", list(lines.values())))
    assert list(reasons(dataset).values()) == list(lines)
    assert pl.read_parquet(dataset.files()).is_empty()
    again = write(tmp_path / "more.jsonl", [{"survey_title": "trees", "tree": SMALL}, {"tree": SMALL}])
    assert set(reasons(build(corpus, topics, again)).values()) == {"unknown_survey"}  # two surveys have that title


def test_the_key_depends_on_the_content_not_on_the_folder(corpus: Corpus, topics: Ref, tmp_path: Path) -> None:
    line = json.dumps({"corpusid": 5, "tree": SMALL}) + "\n"
    (tmp_path / "elsewhere").mkdir()
    first, second = write(tmp_path / "maps.jsonl", [line.strip()]), tmp_path / "elsewhere" / "maps.jsonl"
    second.write_text(line)
    assert build(corpus, topics, first).ref == build(corpus, topics, second).ref
    assert build(corpus, topics, first, max_label=3).manifest.counts.dropped == {"long_label": 1}
    packed = tmp_path / "maps.jsonl.gz"
    packed.write_bytes(gzip.compress(line.encode()))
    assert build(corpus, topics, packed).ref.key != build(corpus, topics, first).ref.key


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="file of mind-maps does not exist"):
        open_maps(tmp_path / "absent.jsonl", "x")


def test_the_transcribed_figures_are_read(shared: Path) -> None:
    found = [item for _, item in read_transcripts(open_maps(shared / "data/figures/mindmaps_gold.jsonl", "x"))]
    maps = [item for item in found if not isinstance(item, str)]
    assert (len(found), len(maps)) == (22, 8)
    assert {item.corpus_id for item in maps} == {None, 900000020}
    assert all(load_any(json.loads(dump_tree(item.tree))[0]) == item.tree for item in maps)
