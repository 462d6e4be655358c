"""Applying diffs to an earlier release gives the same bytes as reading the whole new release."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import DatasetName, ReleaseId
from schemas.release import ReleaseDataset, SourceFile
from schemas.settings import Resources
from tasks.corpus.records import RecordSettings, abstract_records, citation_records, full_texts, paper_records
from tasks.release.diffs import open_diffs
from tasks.store.dataset import Dataset, sha256_file
from tasks.store.store import Request, Store

STAGES = {
    "papers": paper_records,
    "abstracts": abstract_records,
    "citations": citation_records,
    "s2orc": full_texts,
    "s2orc_v2": full_texts,
}
BUCKETS = RecordSettings(buckets=3)
Record = dict[str, Any]
Line = Record | bytes


class Week(NamedTuple):
    """One diff; an update that is bytes is a line that cannot be parsed."""

    deletes: Sequence[Record] = ()
    updates: Sequence[Line] = ()


def paper(corpus_id: int, title: str = "A title", **more: Any) -> Record:
    return {"corpusid": corpus_id, "title": title, **more}


def key_of(dataset: DatasetName, line: Line) -> tuple[Any, ...] | None:
    """What a record is known by, as the specification of releases has it."""
    if isinstance(line, bytes):
        return None
    if dataset != "citations":
        return (line["corpusid"],)
    if line.get("citationid") is not None:
        return (line["citationid"],)
    return (line["citingcorpusid"], line["citedcorpusid"]) if line.get("citedcorpusid") is not None else None


def merge(dataset: DatasetName, release: Sequence[Line], weeks: Sequence[Week]) -> list[Line]:
    """The lines of the release that the diffs lead to: the plain way to apply them."""
    lines = list(release)
    for deletes, updates in weeks:
        gone = {key_of(dataset, line) for line in (*deletes, *updates)} - {None}
        lines = [line for line in lines if key_of(dataset, line) not in gone] + list(updates)
    return lines


class Bench:
    """Builds one dataset's stage from lines."""

    def __init__(self, folder: Path, dataset: DatasetName) -> None:
        self.folder = folder
        self.dataset = dataset
        self.store = Store(folder / "root")
        self._written = 0

    def files(self, parts: dict[str, Sequence[Line]]) -> ReleaseDataset:
        self._written += 1
        directory = self.folder / f"files-{self._written}"
        sources: list[SourceFile] = []
        for name, lines in parts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
            path.write_bytes(b"\n".join([*texts, b""]))
            sources.append(SourceFile(name=name, size=path.stat().st_size, sha256=sha256_file(path)))
        name = ReleaseId(f"made-{self._written}")
        return ReleaseDataset(release=name, dataset=self.dataset, directory=directory, files=tuple(sources))

    def week(self, week: Week) -> ReleaseDataset:
        half = len(week.updates) // 2 if len(week.updates) > 2 else 0
        parts: dict[str, Sequence[Line]] = {"updates/b": week.updates[half:], "updates/a": week.updates[:half]}
        return self.files({"deletes/a": week.deletes, **parts} if week.deletes else parts)

    def whole(self, lines: Sequence[Line]) -> Dataset:
        return self._build({"files": self.files({"a": lines})})

    def apply(self, earlier: Dataset, weeks: Sequence[Week]) -> Dataset:
        diffs = {f"diff-{n:03d}": self.week(week) for n, week in enumerate(weeks)}
        return self._build({"earlier": earlier.ref, **diffs})

    def _build(self, inputs: dict[str, Any]) -> Dataset:
        request = Request(STAGES[self.dataset], BUCKETS, inputs)
        return self.store.open(self.store.build(request, Resources(workers=1)).ref)


def text_of(corpus_id: int, entries: int) -> Record:
    """A full text in the form `s2orc_v2` with one paragraph and some entries in its bibliography."""
    spans = [{"start": 3 * n, "end": 3 * n + 2, "attributes": {"id": f"b{n}"}} for n in range(entries)]
    return {
        "corpusid": corpus_id,
        "title": f"With {entries}",
        "body": {"text": "A body.", "annotations": {"paragraph": json.dumps([{"start": 0, "end": 7}])}},
        "bibliography": {"text": "ab " * entries, "annotations": {"bib_entry": json.dumps(spans)}},
    }


def some_record(dataset: DatasetName, draw: Random) -> Record:
    """A record of few things, so that they meet often; some cannot be used."""
    number = draw.randrange(30)
    if dataset == "papers":
        return paper(number, draw.choice("abc"), year=draw.choice([None, 1999, "not a year"]))
    if dataset == "abstracts":
        return {"corpusid": number, "abstract": draw.choice(["x", "y", " ", None])}
    if dataset == "s2orc_v2":
        return text_of(number, draw.randrange(4))
    return {
        "citingcorpusid": draw.randrange(10),
        "citedcorpusid": draw.choice([None, *range(5), "?"]),
        "citationid": draw.choice([None, None, *range(25)]),
        "isinfluential": draw.choice([None, True, False, 7]),
    }


def some_lines(dataset: DatasetName, draw: Random, count: int) -> list[Line]:
    lines: list[Line] = [some_record(dataset, draw) for _ in range(count)]
    return [draw.choice([b"{", b"[]", b'{"corpusid": "x"}']) if draw.random() < 0.1 else line for line in lines]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dataset", ["papers", "abstracts", "citations", "s2orc_v2"])
def test_applying_diffs_equals_reading_the_whole_release(dataset: DatasetName, seed: int, tmp_path: Path) -> None:
    """Three weeks in one go, and week by week: with repeated, unusable, unknown and restored records."""
    draw, bench = Random(seed), Bench(tmp_path, dataset)
    release = some_lines(dataset, draw, 60)
    weeks = [
        Week(
            [line for line in (some_record(dataset, draw) for _ in range(8)) if key_of(dataset, line)],
            some_lines(dataset, draw, 20),
        )
        for _ in range(3)
    ]
    whole = bench.whole(merge(dataset, release, weeks))
    earlier = bench.whole(release)
    at_once = bench.apply(earlier, weeks)
    assert at_once.manifest.digest == whole.manifest.digest != earlier.manifest.digest
    assert at_once.manifest.counts.kept == whole.manifest.counts.kept
    for week in weeks:
        earlier = bench.apply(earlier, [week])
    assert earlier.manifest.digest == whole.manifest.digest


@pytest.fixture
def bench(tmp_path: Path) -> Callable[[DatasetName], Bench]:
    return lambda dataset: Bench(tmp_path / dataset, dataset)


def test_changes_by_diffs_are_counted(bench: Callable[[DatasetName], Bench]) -> None:
    made = bench("papers")
    earlier = made.whole([paper(n) for n in range(1, 9)])
    weeks = [
        Week([paper(1), paper(2), paper(77)], [paper(3, "new"), paper(9), paper(9, "last"), paper(4, year="none")]),
        Week([], [paper(1, "again"), b"{"]),  # 1 was deleted a week ago
        Week([paper(5)], [paper(5, "both")]),  # deleted and updated in one week: it stays
    ]
    built = made.apply(earlier, weeks)
    assert dict(built.table().select(["corpus_id", "title"]).to_pylist()[0]) == {"corpus_id": 3, "title": "new"}
    titles = {row["corpus_id"]: row["title"] for row in built.table().to_pylist()}
    old = dict.fromkeys((6, 7, 8), "A title")
    assert titles == {1: "again", 3: "new", 4: "A title", 5: "both", 9: "last", **old}
    counts = built.manifest.counts
    assert counts.kept == 8
    assert counts.dropped == {"duplicate": 1, "not_json": 1}
    assert {name: number for name, number in counts.notes.items() if number} == {
        "deletes": 4, "deleted": 3, "deletes_unknown": 1, "mistyped:year": 1,
        "updates": 5, "replaced": 2, "inserted": 3, "restored": 2,
    }  # fmt: skip
    rejected = [
        (row["file"].partition("/")[2], row["line"], row["reason"]) for row in built.table("quarantine").to_pylist()
    ]
    assert sorted(rejected) == [
        ("updates/a", 2, "duplicate"),
        ("updates/b", 2, "not_json"),
    ]


def test_unchanged_buckets_are_the_same_files(bench: Callable[[DatasetName], Bench]) -> None:
    made = bench("s2orc_v2")
    earlier = made.whole([text_of(n, 2) for n in range(6)])
    built = made.apply(earlier, [Week([{"corpusid": 33}], [text_of(1, 3), text_of(7, 0)])])
    same = {
        path.name
        for path in built.folder.glob("[!q]*-*.parquet")
        if path.stat().st_ino == (earlier.folder / path.name).stat().st_ino
    }
    assert same == {f"{name}-{bucket}.parquet" for name in ("part", "bibliography") for bucket in ("00000", "00002")}
    nothing = made.apply(earlier, [Week([], [])])
    assert nothing.manifest.digest == earlier.manifest.digest


def test_diffs_of_another_kind_or_bucket_number_are_refused(bench: Callable[[DatasetName], Bench]) -> None:
    made = bench("s2orc")
    earlier = made.whole([{"corpusid": 1, "content": {"text": "x", "annotations": {}}}])
    made.dataset = "s2orc_v2"
    with pytest.raises(BadInput, match="made from s2orc, but the diffs are of s2orc_v2; build the new release"):
        made.apply(earlier, [Week([], [text_of(1, 1)])])
    made.dataset = "s2orc"
    request = Request(full_texts, RecordSettings(buckets=4), {"earlier": earlier.ref, "diff-000": made.week(Week())})
    with pytest.raises(BadInput, match="with 3 buckets, but 4 were requested"):
        made.store.build(request)


def test_a_chain_of_diffs_is_found_or_reported_missing(tmp_path: Path) -> None:
    a, b, c, d = (f"2026-01-0{day}" for day in range(1, 5))
    for name in (f"{a}_{b}", f"{b}_{c}", f"{c}_{d}", f"{a}_{c}"):
        for dataset in ("papers", "abstracts"):
            (tmp_path / "diffs" / name / dataset / "updates").mkdir(parents=True)
    (tmp_path / f"diffs/{c}_{d}/papers/updates/.part").write_text("hidden")
    (tmp_path / f"diffs/{c}_{d}/papers/updates/part").write_text("{}")
    cache = tmp_path / "hashes.json"
    chain = open_diffs(tmp_path, a, d, ["papers"], cache)
    assert [(diff.start, diff.end) for diff in chain] == [(a, c), (c, d)]
    assert [file.name for file in chain[1].datasets["papers"].files] == ["updates/part"]
    with pytest.raises(
        ReleaseError, match=rf"no diffs lead from release {b} to {a} .*there: {a}_{b}, {a}_{c}, {b}_{c}, {c}_{d}"
    ):
        open_diffs(tmp_path, b, a, ["papers"], cache)
    with pytest.raises(ReleaseError, match=f"{a}_{c}: no diff of citations; fetch it"):
        open_diffs(tmp_path, a, d, ["papers", "citations"], cache)
