"""Figures from a folder: what is kept, and every way in which a file or a list can be bad."""

from pathlib import Path

import polars as pl
import pytest

from schemas.errors import ReleaseError, UsageError
from schemas.release import ReleaseDataset
from schemas.tables.topics import TOPICS
from tasks.corpus.figures.source import MAX_FIGURES
from tasks.corpus.figures.stage import FigureSettings, figures
from tasks.demo.release import SyntheticSettings, write_release
from tasks.llm.images import MAX_BYTES
from tasks.release.mirror import open_figures, open_release
from tasks.store.dataset import Dataset
from tasks.store.store import Request
from tests.corpus.conftest import Corpus
from tests.corpus.figures.conftest import bomb, entry, folder, png


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path / "root")


def build(corpus: Corpus, files: ReleaseDataset, ids: list[int], **settings: int) -> Dataset:
    topics = corpus.given("topics", {TOPICS: [{"topic_id": i, "outcome": "kept"} for i in ids]})
    request = Request(figures, FigureSettings(**settings), {"topics": topics, "files": files})
    return corpus.store.open(corpus.store.build(request).ref)


def dropped(dataset: Dataset) -> list[tuple[str | None, str]]:
    return pl.read_parquet(dataset.files("dropped_figures")).select("figure", "reason").rows()


def test_figures_of_surveys_are_kept_with_caption_and_picture(corpus: Corpus, tmp_path: Path) -> None:
    told = [
        entry("img/1-Figure1-1.png", "  Figure 1:\n a map "),
        entry("http://host/1-TableII-1.jpg", None, figType="Table", page=True),
    ]
    pictures = {"1-Figure1-1.png": png(40, 30), "1-TableII-1.jpg": png(kind="JPEG"), "2-Figure1-1.png": png()}
    files = folder(tmp_path / "f", {1: told, 2: [entry("2-Figure1-1.png")], 9: told}, pictures)
    dataset = build(corpus, files, [1, 2, 3], buckets=2)
    rows = pl.read_parquet(dataset.files()).sort("corpus_id", "place").rows(named=True)
    wanted = [
        (1, 0, "Figure", 1, "Figure 1: a map", "image/png", 40, 30),
        (1, 1, "Table", None, None, "image/jpeg", 4, 3),
        (2, 0, "Figure", 1, "A caption", "image/png", 4, 3),
    ]
    shown = ("corpus_id", "place", "kind", "page", "caption", "media_type", "width", "height")
    assert [tuple(row[name] for name in shown) for row in rows] == wanted
    assert rows[0]["image"] == pictures["1-Figure1-1.png"]
    assert dataset.manifest.counts.notes == {"surveys": 3, "surveys_without_figures": 1}


def test_hostile_files_and_lists_are_dropped_with_the_reason(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png())
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(100 * 2**20)
    told = [
        entry("a.png"),
        entry("bomb.png"),
        entry("wide.png"),
        entry("cut.png"),
        entry("huge.png"),
        entry("../secret.png"),
        entry("..\\..\\secret.png"),
        entry("/etc/passwd"),
        entry("x/..png/..%2fsecret.png"),
        entry("ok.png", caption=7, page=-1),
        entry("ok.png"),
        {"caption": "no picture"},
        7,
    ]
    pictures = {
        "a.png": b"<svg onload=alert(1)>", "bomb.png": bomb(60_000, 60_000), "wide.png": bomb(2_000_000, 2),
        "cut.png": png()[:20], "ok.png": png(), "huge.png": b"x",
    }  # fmt: skip
    path = tmp_path / "f"
    folder(path, {1: told, 2: b"[{]", 3: b'{"a": 1}', 4: [entry(f"{n}.png") for n in range(MAX_FIGURES + 5)]}, pictures)
    (path / "img" / "huge.png").unlink()
    (tmp_path / "huge").rename(path / "img" / "huge.png")
    dataset = build(corpus, open_figures(path, "r", tmp_path / "prints"), [1, 2, 3])
    assert pl.read_parquet(dataset.files()).select("figure", "caption", "page").rows() == [("ok.png", None, None)]
    assert dropped(dataset) == [
        ("a.png", "no_image"),
        ("bomb.png", "too_many_pixels"),
        ("wide.png", "too_many_pixels"),
        ("cut.png", "damaged"),
        ("huge.png", "too_large"),
        ("secret.png", "no_picture"),
        ("secret.png", "repeated"),
        ("passwd", "bad_name"),
        ("..%2fsecret.png", "bad_name"),
        ("ok.png", "repeated"),
        (None, "no_picture_named"),
        (None, "no_picture_named"),
        (None, "list_not_json"),
        (None, "list_not_json"),
    ]
    assert MAX_BYTES < 100 * 2**20
    many = build(corpus, open_figures(path, "r", tmp_path / "prints"), [4])
    assert many.manifest.counts.dropped == {"no_picture": MAX_FIGURES, "too_many_figures": 1}


def test_the_source_must_be_one(corpus: Corpus, tmp_path: Path) -> None:
    topics = corpus.given("topics", {TOPICS: []})
    with pytest.raises(UsageError, match="either a folder"):
        corpus.build(figures, topics=topics)
    with pytest.raises(ReleaseError, match="no figures"):
        open_figures(tmp_path, "r", tmp_path / "prints")


def test_the_synthetic_release_has_figures_of_which_some_are_bad(corpus: Corpus, tmp_path: Path) -> None:
    settings = SyntheticSettings(papers=300, figures=0.5)
    write_release(tmp_path / "releases", settings)
    release = open_release(tmp_path / "releases", settings.release, tmp_path / "prints")
    ids = sorted(int(f.name[5:-5]) for f in release["figures"].files if f.name.startswith("data/"))
    dataset = build(corpus, release["figures"], ids)
    counts = dataset.manifest.counts
    assert counts.kept == 3 * len(ids) > 0
    assert sorted(counts.dropped) == ["no_image", "no_picture"]
    write_release(tmp_path / "again", settings)
    again = open_release(tmp_path / "again", settings.release, tmp_path / "prints")
    assert again["figures"].digest == release["figures"].digest


def test_real_figures_are_read(corpus: Corpus, shared: Path, tmp_path: Path) -> None:
    files = open_figures(shared / "data" / "figures", "r", tmp_path / "prints")
    dataset = build(corpus, files, [900000010, 900000020, 7])
    assert dataset.manifest.counts.kept == 6
    assert dataset.manifest.counts.dropped == {}
