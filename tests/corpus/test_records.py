"""The record stages: tables depend on the records alone, and every line is kept or quarantined."""

import gzip
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.errors import ReleaseError
from schemas.identifiers import DatasetName, ReleaseId
from schemas.release import ReleaseDataset, SourceFile
from schemas.settings import Resources
from schemas.tables.bibliography import BIBLIOGRAPHY
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.full_texts import FULL_TEXTS
from schemas.tables.paper_records import PAPER_RECORDS
from tasks.corpus.records import RecordSettings, abstract_records, citation_records, full_texts, paper_records
from tasks.demo.release import SyntheticSettings, write_release
from tasks.release.mirror import open_release
from tasks.store.dataset import Dataset, sha256_file
from tasks.store.stage import AnyStage
from tasks.store.store import Request, Store
from tests.conftest import REPOSITORY

STAGES: dict[DatasetName, AnyStage] = {
    "papers": paper_records,
    "abstracts": abstract_records,
    "citations": citation_records,
    "s2orc": full_texts,
    "s2orc_v2": full_texts,
}


class Builder:
    """Writes release files and builds the record stages over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "root")

    def release(self, dataset: DatasetName, files: dict[str, bytes]) -> ReleaseDataset:
        """Files of a dataset, gzip where the name ends so."""
        directory = self.folder / "mirror" / dataset
        directory.mkdir(parents=True, exist_ok=True)
        sources: list[SourceFile] = []
        for name, data in files.items():
            path = directory / name
            path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
            sources.append(SourceFile(name=name, size=path.stat().st_size, sha256=sha256_file(path)))
        return ReleaseDataset(release=ReleaseId("r"), dataset=dataset, directory=directory, files=tuple(sources))

    def build(self, release: ReleaseDataset, buckets: int = 2, workers: int = 1, root: str = "root") -> Dataset:
        """The dataset of one record stage."""
        store = Store(self.folder / root)
        request = Request(STAGES[release.dataset], RecordSettings(buckets=buckets), {"files": release})
        return store.open(store.build(request, Resources(workers=workers)).ref)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def lines(*values: object) -> bytes:
    return b"".join((v if isinstance(v, bytes) else json.dumps(v).encode()) + b"\n" for v in values)


def quarantine(dataset: Dataset) -> list[tuple[Any, ...]]:
    rows = dataset.table("quarantine").sort_by([("file", "ascending"), ("line", "ascending")]).to_pylist()
    return [tuple(row.values()) for row in rows]


def part_digests(dataset: Dataset) -> dict[str, str]:
    return {f.path: f.sha256 for f in dataset.manifest.files if not f.path.startswith("quarantine")}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> dict[DatasetName, ReleaseDataset]:
    folder = tmp_path_factory.mktemp("synthetic")
    write_release(folder, SyntheticSettings(papers=300, files=3, paragraphs=1))
    return open_release(folder, "2026-01-06", folder / "cache")


@pytest.mark.parametrize("dataset", ["papers", "abstracts", "citations", "s2orc_v2"])
def test_every_line_of_a_release_is_kept_or_quarantined(
    builder: Builder, synthetic: dict[DatasetName, ReleaseDataset], dataset: DatasetName
) -> None:
    built = builder.build(synthetic[dataset], buckets=3)
    counts = built.manifest.counts
    source = [
        line
        for file in synthetic[dataset].files
        for line in gzip.decompress((synthetic[dataset].directory / file.name).read_bytes()).splitlines()
    ]
    assert counts.read == len(source)
    assert counts.read == counts.kept + sum(counts.dropped.values())
    assert counts.kept == built.table().num_rows
    blank = counts.dropped.pop("no_abstract", 0)
    assert (blank > 0) == (dataset == "abstracts")
    key = "citingcorpusid" if dataset == "citations" else "corpusid"
    mistyped = {"papers": "year", "abstracts": "abstract", "citations": "isinfluential", "s2orc_v2": "body"}[dataset]
    reasons = ["not_json", "invalid_utf8", "not_object", f"no_{key}", f"bad_{key}", "duplicate", "duplicate"]
    assert counts.dropped == Counter(reasons)
    assert counts.notes[f"mistyped:{mistyped}"] == 1
    found = quarantine(built)
    assert [reason for *_, reason, _ in found] == reasons
    assert [line for _, line, *_ in found] == [1, 2, 3, 4, 5, 6, 7]
    data = gzip.decompress((synthetic[dataset].directory / found[0][0]).read_bytes())
    for _, number, offset, reason, excerpt in found:
        line = data[offset:].split(b"\n", 1)[0]
        assert line == data.splitlines()[number - 1]
        assert reason == "duplicate" or excerpt == line.decode("utf-8", "replace")[:200]


def test_buckets_are_sorted_and_complete(builder: Builder, synthetic: dict[DatasetName, ReleaseDataset]) -> None:
    for dataset, table, side in (
        ("papers", PAPER_RECORDS, None),
        ("citations", CITATION_RECORDS, None),
        ("s2orc_v2", FULL_TEXTS, BIBLIOGRAPHY),
    ):
        built = builder.build(synthetic[dataset], buckets=5)
        assert [path.name for path in built.files()] == [f"part-{bucket:05d}.parquet" for bucket in range(5)]
        for declared, prefix in ((table, "part"), *([(side, side.name)] if side else [])):
            for bucket, path in enumerate(built.files(prefix)):
                rows = pq.read_table(path)
                assert rows.schema.equals(declared.arrow)
                keys = [
                    tuple((v is None, v) for v in row)
                    for row in zip(*(rows[c].to_pylist() for c in declared.order), strict=True)
                ]
                assert keys == sorted(keys)
                assert {key[0][1] % 5 for key in keys} <= {bucket}


@pytest.mark.parametrize("dataset", ["papers", "citations", "s2orc_v2"])
def test_the_result_does_not_depend_on_the_split_into_files(
    builder: Builder, synthetic: dict[DatasetName, ReleaseDataset], dataset: DatasetName
) -> None:
    release = synthetic[dataset]
    expected = part_digests(builder.build(release))
    data = b"".join(gzip.decompress((release.directory / file.name).read_bytes()) for file in release.files)
    third = data.index(b"\n", len(data) // 3) + 1
    for split in ({"all": data}, {"a": data[:third], "b.gz": data[third:]}):
        assert part_digests(builder.build(builder.release(dataset, split), root=f"split-{len(split)}")) == expected


@pytest.mark.parametrize("dataset", ["citations", "s2orc_v2"])
def test_the_result_does_not_depend_on_sizes_in_memory(
    builder: Builder,
    synthetic: dict[DatasetName, ReleaseDataset],
    dataset: DatasetName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = part_digests(builder.build(synthetic[dataset]))
    monkeypatch.setattr("tasks.corpus.external_sort.RUN_BYTES", 60_000)
    monkeypatch.setattr("tasks.corpus.external_sort.BATCH_BYTES", 3_000)
    monkeypatch.setattr("tasks.corpus.record_parsing.BATCH_BYTES", 20_000)
    assert part_digests(builder.build(synthetic[dataset], root="small")) == expected


def test_the_result_does_not_depend_on_the_number_of_workers(
    builder: Builder, synthetic: dict[DatasetName, ReleaseDataset]
) -> None:
    one, two = (builder.build(synthetic["s2orc_v2"], workers=n, root=f"workers-{n}") for n in (1, 2))
    assert one.manifest.digest == two.manifest.digest


def test_the_last_of_several_records_of_a_paper_is_kept(builder: Builder) -> None:
    release = builder.release(
        "papers",
        {
            "b": lines({"corpusid": 4, "title": "in b"}, {"corpusid": "3", "title": "last of 3"}),
            "a": lines({"corpusid": 4, "title": "in a"}, {"corpusid": 3, "title": "x"}, {"corpusid": 3, "title": "y"}),
        },
    )
    built = builder.build(release)
    assert built.table().select(["corpus_id", "title"]).to_pylist() == [
        {"corpus_id": 4, "title": "in b"},
        {"corpus_id": 3, "title": "last of 3"},
    ]
    first, second = (release.directory / "a").read_bytes().split(b'{"corpusid": 3')[:2]
    assert quarantine(built) == [
        ("a", 1, 0, "duplicate", "corpus_id: 4"),
        ("a", 2, len(first), "duplicate", "corpus_id: 3"),
        ("a", 3, len(first + second) + 14, "duplicate", "corpus_id: 3"),
    ]
    assert built.manifest.counts.dropped == {"duplicate": 3}


def test_a_later_blank_abstract_removes_an_earlier_one(builder: Builder) -> None:
    release = builder.release(
        "abstracts",
        {
            "a": lines(
                {"corpusid": 1, "abstract": "old"},
                {"corpusid": 1, "abstract": " "},
                {"corpusid": 2, "abstract": "kept"},
            )
        },
    )
    built = builder.build(release)
    assert built.table().to_pylist() == [{"corpus_id": 2, "abstract": "kept"}]
    assert built.manifest.counts.dropped == {"duplicate": 1, "no_abstract": 1}


def test_citations_with_equal_ids_or_pairs_are_duplicates(builder: Builder) -> None:
    def edge(cited: int | None, influential: bool | None, number: int | None = None) -> dict[str, Any]:
        return {"citingcorpusid": 8, "citedcorpusid": cited, "isinfluential": influential, "citationid": number}

    release = builder.release(
        "citations",
        {
            "a": lines(
                edge(None, False, 50),
                edge(5, True, 50),
                edge(5, False, 51),
                edge(7, False),
                edge(7, True),
                edge(None, None),
                edge(None, True),
                edge(2, None),
            )
        },
    )
    built = builder.build(release)
    assert [tuple(row.values()) for row in built.table().to_pylist()] == [
        (8, 2, None, None),
        (8, 5, True, 50),
        (8, 5, False, 51),
        (8, 7, True, None),
        (8, None, True, None),
        (8, None, None, None),
    ]
    assert [line for _, line, *_ in quarantine(built)] == [1, 4]


def test_repeated_full_texts_of_a_paper_become_one_row(builder: Builder) -> None:
    """The bibliography goes with the record that stands."""

    def text(body: str) -> dict[str, Any]:
        spans = json.dumps([{"start": 0, "end": len(body)}])
        entries = json.dumps([{"start": 0, "end": 1, "attributes": {"id": "b0"}}] * len(body))
        return {"corpusid": 6, "content": {"text": body, "annotations": {"paragraph": spans, "bibentry": entries}}}

    built = builder.build(builder.release("s2orc", {"a": lines(text("long old"), text("new"))}))
    assert built.table()["paragraphs"].to_pylist() == [[{"section": -1, "text": "new"}]]
    assert built.table("bibliography").select(["corpus_id", "position", "entry"]).to_pylist() == [
        {"corpus_id": 6, "position": n, "entry": "n"} for n in range(3)
    ]


def test_a_very_long_line_is_quarantined_alone(builder: Builder) -> None:
    record = {"corpusid": 2, "title": "short"}
    data = b'{"corpusid": 1, "title": "' + b"x" * 50_000_000 + b'"}\n' + lines(record)
    built = builder.build(builder.release("papers", {"a.gz": data}))
    assert built.table()["corpus_id"].to_pylist() == [2]
    assert [row[:4] for row in quarantine(built)] == [("a.gz", 1, 0, "too_long")]


def test_spans_left_out_are_counted_in_the_notes(
    builder: Builder, synthetic: dict[DatasetName, ReleaseDataset]
) -> None:
    notes = builder.build(synthetic["s2orc_v2"]).manifest.counts.notes
    assert notes["spans_out_of_range"] > 5
    assert notes["spans_empty"] > 5


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": lines({"corpusid": 1}), "b.gz": b""}, r"b\.gz: holds no line"),
        ({"a": b"\n \n\n"}, r"a: holds no line"),
        ({"a": b"<html><body>403 Forbidden</body></html>\n"}, r"a: none of its 1 lines can be used \(not_json: 1\)"),
        ({"a": b"PK\x03\x04\xff\xfe" * 999}, r"a: none of its 1 lines can be used \(invalid_utf8: 1\)"),
        ({"a": lines({"citingcorpusid": 1, "citedcorpusid": 2})}, r"a: none of its 1 lines .*\(no_corpusid: 1\)"),
    ],
)
def test_a_file_without_a_usable_line_fails_the_stage(builder: Builder, files: dict[str, bytes], message: str) -> None:
    release = builder.release("papers", files)
    with pytest.raises(ReleaseError, match=message):
        builder.build(release, workers=2)
    assert builder.store.published("paper_records") == ()


def test_a_truncated_file_fails_the_stage_and_a_new_copy_resumes_it(builder: Builder) -> None:
    files = {name: lines(*({"corpusid": 10 * n + i} for n in range(500))) for i, name in enumerate(("a.gz", "b.gz"))}
    whole = builder.release("papers", files)
    expected = builder.build(whole, root="undisturbed")
    path = whole.directory / "b.gz"
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    with pytest.raises(ReleaseError, match=r"b\.gz: has \d+ bytes, had \d+ when the build began"):
        builder.build(whole)
    cut = whole.model_copy(
        update={"files": (whole.files[0], whole.files[1].model_copy(update={"size": len(data) - 30}))}
    )
    with pytest.raises(ReleaseError, match=r"b\.gz: gzip data truncated or damaged after \d+ decompressed bytes"):
        builder.build(cut)
    path.write_bytes(data)
    built = builder.build(whole)
    assert built.manifest.digest == expected.manifest.digest
    assert built.manifest.shards_resumed == 1


def test_the_official_samples_are_read(builder: Builder, shared: Path) -> None:
    """Their citations carry ids as strings."""
    (builder.folder / "2022-05-10").symlink_to(shared / "data/s2ag_official_samples")
    release = open_release(builder.folder, "2022-05-10", builder.folder / "cache")
    for dataset, number in (("papers", 100), ("abstracts", 100), ("citations", 100), ("s2orc", 3)):
        counts = builder.build(release[dataset]).manifest.counts
        assert (counts.read, counts.kept, counts.dropped) == (number, number, {})


def _build_two(mirror: Path, root: Path) -> dict[DatasetName, Dataset]:
    """Builds two record stages of a release; what the killed processes run."""
    store, built = Store(root), {}
    release = open_release(mirror, "2026-01-06", root / "cache")
    for dataset in ("papers", "s2orc_v2"):
        request = Request(STAGES[dataset], RecordSettings(buckets=6), {"files": release[dataset]})
        built[dataset] = store.open(store.build(request, Resources(workers=1)).ref)
    return built


@pytest.mark.long
def test_killed_record_stages_resume_at_the_shard(tmp_path: Path) -> None:
    mirror, root = tmp_path / "mirror", tmp_path / "root"
    write_release(mirror, SyntheticSettings(papers=300, files=6))
    expected = _build_two(mirror, tmp_path / "undisturbed")
    command = f"import tests.corpus.test_records as t; t._build_two(t.Path({str(mirror)!r}), t.Path({str(root)!r}))"
    seen: dict[Path, int] = {}
    kills = 0

    def finished() -> dict[Path, int]:
        found: dict[Path, int] = {}
        for path in root.glob(".staging/*/*/.shards/*.json"):
            with suppress(FileNotFoundError):  # its stage was published meanwhile
                found[path] = path.stat().st_mtime_ns
        return found

    # Six files and six buckets: kills while files are parsed, and while buckets are merged.
    for stage, number in (("paper_records", 3), ("full_texts", 2), ("full_texts", 5), ("full_texts", 9)):
        child = subprocess.Popen([sys.executable, "-c", command], cwd=REPOSITORY)
        while child.poll() is None and sum(stage in path.parts for path in finished()) < number:
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait(30)
        kills += child.returncode == -signal.SIGKILL
        now = finished()
        # A marker that was there is the same file still, or its stage is published.
        assert all(now.get(path, mtime) == mtime for path, mtime in seen.items())
        seen = now
    assert kills >= 2
    built = _build_two(mirror, root)
    for dataset, undisturbed in expected.items():
        assert built[dataset].manifest.digest == undisturbed.manifest.digest
        assert built[dataset].manifest.counts == undisturbed.manifest.counts
    assert built["s2orc_v2"].manifest.shards_resumed >= sum("full_texts" in path.parts for path in seen)
