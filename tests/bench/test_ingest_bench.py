"""Ingest of one s2orc file to Parquet, beside what it consists of and beside DuckDB, in one run; and a worker's memory.

MB are decompressed bytes / 10^6; every number is of one process with one thread.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from isal import igzip
from rich.console import Console
from rich.table import Table

from schemas.identifiers import DatasetName, ReleaseId
from schemas.release import ReleaseDataset, SourceFile
from schemas.settings import Resources
from tasks.corpus.records import RecordSettings, abstract_records, citation_records, full_texts, paper_records
from tasks.demo.release import SyntheticSettings, write_release
from tasks.release.lines import LINE_LIMIT, Line, read_blocks
from tasks.release.typed import DECODERS
from tasks.store.dataset import Dataset, sha256_file
from tasks.store.stage import AnyStage
from tasks.store.store import Request, Store
from tests.conftest import REPOSITORY

ROUNDS = 3
MIB = 1024 * 1024
ANNOTATIONS = ("title", "abstract", "sectionheader", "paragraph", "bibentry", "bibref", "bibtitle")
SPANS = """'[{"start": "INTEGER", "end": "INTEGER", "attributes":
    {"id": "VARCHAR", "ref_id": "VARCHAR", "n": "VARCHAR", "matched_paper_id": "BIGINT"}}]'"""

pytestmark = pytest.mark.bench


class Timed(NamedTuple):
    """Median wall-clock and processor seconds."""

    wall: float
    cpu: float


def time_all(works: dict[str, Callable[[], object]]) -> dict[str, Timed]:
    """Times every work ROUNDS times, taking turns, so that a busy spell of the machine meets all alike."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            seen[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: Timed(*(median(column) for column in zip(*times, strict=True))) for name, times in seen.items()}


def build(path: Path, root: Path, dataset: DatasetName = "s2orc", stage: AnyStage = full_texts) -> Dataset:
    """A record stage over one file, with one worker."""
    source = SourceFile(name=path.name, size=path.stat().st_size, sha256=sha256_file(path))
    release = ReleaseDataset(release=ReleaseId("bench"), dataset=dataset, directory=path.parent, files=(source,))
    store = Store(root)
    return store.open(store.build(Request(stage, RecordSettings(), {"files": release}), Resources(workers=1)).ref)


def decompress(path: Path) -> int:
    size = 0
    with igzip.open(path, "rb") as source:
        while data := source.read(MIB):
            size += len(data)
    return size


def parse(path: Path) -> None:
    with igzip.open(path, "rb") as source:
        for line in source:
            orjson.loads(line)


def write(tables: list[pa.Table], target: Path) -> None:
    """What no way of making these files can do without, beside decompression."""
    for table in tables:
        pq.write_table(table, target, compression="zstd", compression_level=1)


def copy_by_duckdb(path: Path, target: Path, *, decoded: bool) -> None:
    """DuckDB's read_json to Parquet: the annotations as they are, or decoded to the columns that we write."""
    fields = ", ".join(f"{name} VARCHAR" for name in ANNOTATIONS)
    names = ", ".join(f"content.annotations.{name} AS {name}" for name in ANNOTATIONS)
    records = f"""SELECT corpusid, content.text AS text, {names}
        FROM read_json('{path}', format = 'newline_delimited', maximum_object_size = {32 * MIB},
        columns = {{corpusid: 'BIGINT', content: 'STRUCT(text VARCHAR, annotations STRUCT({fields}))'}})"""
    spans = f"""SELECT corpusid, text, {", ".join(f"from_json({name}, {SPANS}) AS {name}" for name in ANNOTATIONS)}
        FROM ({records})"""
    columns = f"""SELECT corpusid, text[title[1].start + 1 : title[1]."end"] AS title,
        text[abstract[1].start + 1 : abstract[1]."end"] AS abstract,
        list_transform(sectionheader, lambda x: {{number: x.attributes.n, heading: text[x.start + 1 : x."end"]}})
            AS sections,
        list_transform(paragraph, lambda x: {{
            section: len(list_filter(sectionheader, lambda y: y.start <= x.start)) - 1,
            text: text[x.start + 1 : x."end"]}}) AS paragraphs,
        list_transform(bibentry, lambda x: {{entry_id: x.attributes.id, entry: text[x.start + 1 : x."end"],
            title: list_filter(bibtitle, lambda y: y.start >= x.start AND y."end" <= x."end")[1],
            matched_corpus_id: x.attributes.matched_paper_id,
            mentions: len(list_filter(bibref, lambda y: y.attributes.ref_id = x.attributes.id))}}) AS entries
        FROM ({spans}) ORDER BY corpusid"""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        query = columns if decoded else records
        connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


def repeat(path: Path, target: Path, times: int) -> Path:
    """The records of a file again and again, each time as other papers."""
    with igzip.open(path, "rb") as source, igzip.open(target, "wb") as output:
        records = [line.split(b",", 1)[1] for line in source]
        for number, rest in enumerate(rest for _ in range(times) for rest in records):
            output.write(b'{"corpusid":%d,' % number + rest)
    return target


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic s2orc file of papers of real length (about 45 KB of text)."""
    folder = tmp_path_factory.mktemp("invented")
    write_release(folder, SyntheticSettings(papers=800, files=1, full_text="s2orc", paragraphs=22, broken=False))
    return repeat(folder / "2026-01-06/s2orc/part-000.jsonl.gz", folder / "part.jsonl.gz", 3)


@pytest.fixture(scope="module")
def real(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of the real sample as one."""
    path = tmp_path_factory.mktemp("real") / "part.jsonl.gz"
    parts = sorted((shared / "data/s2/2026-01-06/s2orc").iterdir())[:4]
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


@pytest.mark.parametrize("source", ["invented", "real"])
def test_ingest_of_one_file(source: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path: Path = request.getfixturevalue(source)
    built = build(path, tmp_path / "first")
    tables = [built.table(), built.table("bibliography")]
    numbers = count()
    works: dict[str, Callable[[], object]] = {
        "isal decompression": lambda: decompress(path),
        "isal + orjson.loads": lambda: parse(path),
        "writing the same rows to Parquet": lambda: write(tables, tmp_path / "out"),
        "DuckDB, annotations as they are": lambda: copy_by_duckdb(path, tmp_path / "raw.parquet", decoded=False),
        "DuckDB, the same columns": lambda: copy_by_duckdb(path, tmp_path / "decoded.parquet", decoded=True),
        "stage full_texts": lambda: build(path, tmp_path / f"root-{next(numbers)}"),
    }
    times = time_all(works)
    ours = times["stage full_texts"]
    megabytes = decompress(path) / 1e6
    table = Table(title=f"Ingest of one s2orc file ({source}, {megabytes:.0f} MB, {built.manifest.counts.kept} papers)")
    for heading in ("", "MB/s", "MB/s of CPU time", "stage full_texts is", "by CPU time"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, seen in times.items():
        ratios = (f"{seen.wall / ours.wall:.2f} x", f"{seen.cpu / ours.cpu:.2f} x")
        table.add_row(name, f"{megabytes / seen.wall:.0f}", f"{megabytes / seen.cpu:.0f}", *ratios)
    table.caption = "asked for: 0.25 x of the first row, 2 x of DuckDB with the same columns"
    Console(width=120).print(table)
    decoded = pq.read_table(tmp_path / "decoded.parquet")
    assert sorted(decoded["corpusid"].to_pylist()) == sorted(tables[0]["corpus_id"].to_pylist())
    # The invented file has spans that are out of range: DuckDB keeps those as empty texts.
    paragraphs, entries = (len(pc.list_flatten(decoded[name])) for name in ("paragraphs", "entries"))
    assert len(pc.list_flatten(tables[0]["paragraphs"])) == pytest.approx(paragraphs, rel=0.01)
    assert tables[1].num_rows == pytest.approx(entries, rel=0.01)
    assert times["DuckDB, the same columns"].cpu > 2 * ours.cpu


STAGES: dict[DatasetName, AnyStage] = {
    "papers": paper_records,
    "abstracts": abstract_records,
    "citations": citation_records,
    "s2orc": full_texts,
}


def test_ingest_of_every_dataset(shared: Path, tmp_path: Path) -> None:
    """The real sample to Parquet, dataset by dataset, beside decompressing and parsing it."""
    table = Table(title="Record stages over the real sample, MB per CPU second")
    for heading in ("", "MB", "stage", "isal + orjson", "read by block"):
        table.add_column(heading, justify="right" if heading else "left")
    for dataset, stage in STAGES.items():
        parts = sorted((shared / "data/s2/2026-01-06" / dataset).iterdir())[:6]
        path = tmp_path / dataset / "part.jsonl.gz"
        path.parent.mkdir()
        path.write_bytes(b"".join(part.read_bytes() for part in parts))
        numbers = count()
        works: dict[str, Callable[[], object]] = {
            "stage": lambda: build(path, tmp_path / f"{dataset}-{next(numbers)}", dataset, stage),  # noqa: B023
            "parse": lambda: parse(path),  # noqa: B023
        }
        times, megabytes = time_all(works), decompress(path) / 1e6
        blocks = [block for block in read_blocks(path) if not isinstance(block, Line)]
        whole = sum(DECODERS[dataset].decode(block.data, LINE_LIMIT, Counter()) is not None for block in blocks)
        speeds = (f"{megabytes / times[name].cpu:.0f}" for name in ("stage", "parse"))
        table.add_row(dataset, f"{megabytes:.0f}", *speeds, f"{whole} of {len(blocks)}")
        assert whole > 0.9 * len(blocks), "real records are as documented"
    Console(width=120).print(table)


PEAK = """
import sys
from pathlib import Path
from tests.bench.test_ingest_bench import build
built = build(Path(sys.argv[1]), Path(sys.argv[2]))
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(built.manifest.counts.kept, peak.split()[1])
"""


def test_peak_memory_of_a_worker_does_not_follow_the_file(invented: Path, tmp_path: Path) -> None:
    table = Table(title="Peak memory of a process that builds full_texts from one file")
    for heading in ("MB", "papers", "peak MiB"):
        table.add_column(heading, justify="right")
    peaks: list[float] = []
    for times in (1, 8):
        path = repeat(invented, tmp_path / f"{times}.gz", times)
        command = [sys.executable, "-c", PEAK, str(path), str(tmp_path / f"root-{times}")]
        printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        papers, peak = map(int, printed.split())
        table.add_row(f"{decompress(path) / 1e6:.0f}", str(papers), f"{peak / 1024:.0f}")
        peaks.append(peak / 1024)
    Console(width=120).print(table)
    assert max(peaks) < 1024
    assert peaks[1] < 1.3 * peaks[0]
