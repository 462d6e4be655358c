"""Reading lines a block at a time gives what reading them one by one gives, whatever is in them."""

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any, cast, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.identifiers import DatasetName
from schemas.manifest import Counts
from schemas.release import SourceFile
from schemas.tables.quarantine import QuarantinedLineRow
from tasks.corpus import record_parsing
from tasks.corpus.external_sort import RunWriter
from tasks.corpus.record_parsing import ParseTask, Rejects, read_records
from tasks.demo.papers import PaperGenerator
from tasks.demo.release_records import format_abstract, format_citations, format_paper, format_s2orc, format_s2orc_v2
from tasks.release.lines import Line, parse_line
from tasks.release.typed import DECODERS, BlockDecoder
from tasks.store.parquet import TableWriter

Json = dict[str, Any]
DATASETS = ("papers", "abstracts", "citations", "s2orc", "s2orc_v2")
GENERATOR = PaperGenerator(seed=3, full_text_share=1, paragraphs=1)
PAPERS = [GENERATOR.paper(number) for number in (0, 11, 22, 77)]
RECORDS: dict[str, list[Json]] = {
    "papers": [cast(Json, format_paper(paper)) for paper in PAPERS],
    "abstracts": [cast(Json, format_abstract(paper)) for paper in PAPERS],
    "citations": [cast(Json, record) for paper in PAPERS for record in list(format_citations(paper))[:2]],
    "s2orc": [cast(Json, format_s2orc(paper)) for paper in PAPERS],
    "s2orc_v2": [cast(Json, format_s2orc_v2(paper)) for paper in PAPERS],
}


class Collected(RunWriter):
    """Keeps the rows that would be written."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self.tables.append(rows)

    def close(self) -> None:
        pass


class CollectedRejects(Rejects):
    """Keeps the rejected lines that would be written."""

    def __init__(self) -> None:
        super().__init__("f", cast(TableWriter, None))
        self.found: list[QuarantinedLineRow] = []

    def flush(self) -> None:
        self.found += self._rows
        self._rows.clear()


class LineByLine(BlockDecoder[Any]):
    """Refuses every block of more than one line."""

    def __init__(self, dataset: str) -> None:
        self._inner = DECODERS[dataset]

    def decode(self, data: bytes, limit: int, notes: Counter[str]) -> Any:
        return None if b"\n" in data else self._inner.decode(data, limit, notes)


def read(path: Path, dataset: str, limit: int, blocks: BlockDecoder[Any]) -> tuple[list[Any], Any, Counts, list[Json]]:
    source = SourceFile(name="f", size=1, sha256="0" * 64)
    task = ParseTask(path, source, cast(DatasetName, dataset), 0, 2, "f", limit)
    runs, rejects, unusable = Collected(), CollectedRejects(), list[Json]()
    form = record_parsing.FORMATS[task.dataset]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(record_parsing.FORMATS, task.dataset, form._replace(blocks=blocks))
        patch.setattr(record_parsing, "SMALL_BLOCK", 0)
        counts = read_records(task, runs, rejects, unusable.append)
    rows = [row for table in runs.tables for row in table.to_pylist()]
    return rows, rejects.found, counts, unusable


def values() -> st.SearchStrategy[Any]:
    odd = [
        2**31,
        2**63,
        2**64,
        -1,
        "7",
        "9" * 20,
        1.0,
        True,
        "",
        " ",
        "\ud800",
        {},
        [],
        [None],
        ["x", 1],
        [{}],
        {"a": {}},
    ]
    return st.one_of(st.none(), st.sampled_from(odd), st.text(max_size=5), st.integers(), st.floats())


@st.composite
def lines_of(draw: st.DrawFn, dataset: str) -> bytes:
    """A line: valid, with a field of another type, or damaged."""
    record = json.loads(json.dumps(draw(st.sampled_from(RECORDS[dataset]))))
    holder = record
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from([*holder, "unknown"]))
        if isinstance(holder.get(key), dict) and draw(st.booleans()):
            holder = holder[key]
        else:
            holder[key] = draw(values())
    line = json.dumps(record, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    match draw(st.integers(0, 9)):
        case 0:
            place = draw(st.integers(0, len(line) - 1))
            wrong = draw(
                st.sampled_from([b"\xff", b"\t", b"\n", b"", b'"', b"\\", b"\\ud800", b"\r", b"}{", b"1e999", b"\x00"])
            )
            line = line[:place] + wrong + line[place + 1 :]
        case 1:
            tail = [b"1e999", b"-1e400", b"NaN", b'"\xff"', b'"\\x"', b"[" * 1100 + b"]" * 1100, b"01", b"9" * 400]
            line = line[:-1] + b', "unread": ' + draw(st.sampled_from(tail)) + b"}"
        case 2:
            line = draw(
                st.sampled_from(
                    [b"", b" ", b"\r", line + b" ", b" " + line, line + b"\r", line + line, b"[1]", b"null"]
                )
            )
        case 3:
            line = draw(st.binary(max_size=30).filter(lambda drawn: not drawn.startswith(b"\x1f\x8b")))  # no gzip file
        case _:
            pass
    return line


@pytest.mark.parametrize("dataset", DATASETS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_block_gives_what_its_lines_give(
    tmp_path_factory: pytest.TempPathFactory, dataset: str, data: st.DataObject
) -> None:
    lines = data.draw(st.lists(lines_of(dataset), max_size=6))
    path = tmp_path_factory.getbasetemp() / f"{dataset}-lines"
    path.write_bytes(b"\n".join(lines) + b"\n" * data.draw(st.integers(0, 1)))
    limit = data.draw(st.sampled_from([2**25, 500]))
    by_block = read(path, dataset, limit, DECODERS[dataset])
    assert by_block == read(path, dataset, limit, LineByLine(dataset))


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("dataset", DATASETS)
def test_whole_records_are_read_a_block_at_a_time(tmp_path: Path, dataset: str) -> None:
    data = b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in RECORDS[dataset])
    notes: Counter[str] = Counter()
    found = DECODERS[dataset].decode(data, 2**25, notes)
    assert found is not None, "no line is read by the slow way"
    form = record_parsing.FORMATS[cast(DatasetName, dataset)]
    each: Counter[str] = Counter()
    rows = [form.decode(parse_line(Line(1, 0, len(line), line)), each) for line in data.splitlines()]
    assert [tuple(map(plain, row)) for row in zip(*found.columns, strict=True)] == [
        tuple(map(plain, row)) for row in rows
    ]
    assert notes == each
    assert [data[start : start + 1] for start in found.starts] == [b"{"] * len(rows)


def test_one_bad_line_costs_only_its_own_block(tmp_path: Path) -> None:
    record = json.dumps(RECORDS["papers"][0]).encode()
    path = tmp_path / "lines"
    path.write_bytes((record + b"\n") * 3000 + b"{\n" + (record + b"\n") * 3000)
    refused: list[int] = []

    class Noting(BlockDecoder[Any]):
        def __init__(self) -> None: ...

        def decode(self, data: bytes, limit: int, notes: Counter[str]) -> Any:
            found = DECODERS["papers"].decode(data, limit, notes)
            refused.extend([] if found else [data.count(b"\n")])
            return found

    rows, rejected, counts, _ = read(path, "papers", 2**25, Noting())
    assert (len(rows), [line.line for line in rejected], counts.read) == (6000, [3001], 6001)
    assert len(refused) < 15, "halves without the bad line are read whole"


def test_every_dataset_of_records_has_a_decoder() -> None:
    assert set(DECODERS) == set(record_parsing.FORMATS) <= set(get_args(DatasetName))


@pytest.mark.parametrize(
    ("dataset", "line", "outcome"),
    [
        ("papers", b'{"corpusid": 1, "x": [%s]}', {}),
        ("papers", b'{"corpusid": "x", "x": [%s]}', {"too_long": 1}),
        ("papers", b'{"corpusid": 1, "authors": [%s, 1]}', {"too_long": 1}),
        ("s2orc", b'{"corpusid": 1, "content": {"text": "a", "annotations": {"paragraph": "[%s, 1]"}}}', {}),
    ],
)
def test_a_line_of_millions_of_objects_takes_little_memory(
    tmp_path: Path, dataset: str, line: bytes, outcome: dict[str, int]
) -> None:
    objects = b",".join([b"[]"] * (12 * 2**20 // 3))
    path = tmp_path / "line.gz"
    path.write_bytes(gzip.compress(line % objects, 1))
    tracemalloc.start()
    _, _, counts, _ = read(path, dataset, 2**25, DECODERS[dataset])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counts.dropped == outcome
    assert peak < 6 * len(objects)
