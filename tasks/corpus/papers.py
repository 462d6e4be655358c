"""Stage `papers`: joins record, abstract and full text of each paper and resolves its publication date.

Scale: all inputs have the same buckets and ascend by id, so each bucket is merged on its own with a few thousand papers
in memory. Of full texts only ids, the parser's abstracts and one integer per paragraph are read.
"""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.full_texts import FULL_TEXTS
from schemas.tables.papers import PAPERS
from tasks.corpus.buckets import matching_files
from tasks.corpus.dates import resolve_date
from tasks.store.parquet import ParquetReader, write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

ROWS = 16 * 1024
"""Papers in memory at a time."""

ABSTRACT_COLUMNS = ["corpus_id", "abstract"]
FULL_TEXT_COLUMNS = ["corpus_id", "abstract", "paragraphs.list.element.section"]
"""Just enough of a full text to see whether it has paragraphs."""

WHITESPACE = " \t\r\n"

_resolved = lru_cache(maxsize=1 << 16)(resolve_date)


class PapersSettings(Settings):
    """No settings: the buckets are those of `paper_records`."""


class _Bucket(NamedTuple):
    records: Path
    abstracts: Path
    full_texts: Path | None

    @property
    def files(self) -> list[Path]:
        """All files that the bucket's papers depend on."""
        return [path for path in (self.records, self.abstracts, self.full_texts) if path]


@stage("papers", version=1, settings=PapersSettings, after="full_texts")
def papers(work: Workspace[PapersSettings]) -> None:
    """Writes one row per paper record, in as many buckets as `paper_records` has.

    The abstract is that of `abstracts`, or else the parser's. The notes count problems with dates, dates by precision,
    papers with abstract and with full text, and abstracts and full texts that belong to no paper.

    Raises:
        BadInput: The inputs have different buckets.
    """
    records = work.dataset("paper_records").files()
    abstracts = matching_files(work, "abstract_records", records)
    texts = matching_files(work, "full_texts", records) if "full_texts" in work.inputs else [None] * len(records)
    buckets = {r.stem: _Bucket(r, a, t) for r, a, t in zip(records, abstracts, texts, strict=True)}
    work.map_shards(_join_bucket, buckets, {name: bucket.files for name, bucket in buckets.items()})


def _join_bucket(shard: Shard, bucket: _Bucket) -> None:
    rows = _joined(bucket, shard.counts)
    shard.counts.kept = write_table(shard.file(f"{shard.name}.parquet"), PAPERS, rows)
    shard.counts.read = shard.counts.kept


def _joined(bucket: _Bucket, counts: Counts) -> Iterator[pa.Table]:
    """Yields the bucket's papers and counts them, and the abstracts and full texts that belong to no paper."""
    abstracts = _SortedReader(bucket.abstracts, ABSTRACT_COLUMNS)
    texts = _SortedReader(bucket.full_texts, FULL_TEXT_COLUMNS) if bucket.full_texts else None
    with ParquetReader(bucket.records) as file:
        for batch in file.iter_batches(ROWS):
            ids = batch["corpus_id"].to_numpy()
            text_rows = texts.rows_of(ids) if texts else FULL_TEXTS.empty().take(pa.nulls(len(ids), pa.int64()))
            yield _papers(pa.Table.from_batches([batch]), abstracts.rows_of(ids), text_rows, counts)
    others = {"abstracts": abstracts.count_others(), "full_texts": texts.count_others() if texts else 0}
    counts.add(Counts(notes={f"{name}_without_paper": number for name, number in others.items()}))


class _SortedReader:
    """Reads rows by id from a file that ascends by id, a batch at a time."""

    def __init__(self, path: Path, columns: list[str]) -> None:
        file = ParquetReader(path)
        self._batches = file.iter_batches(ROWS, columns=columns)
        self._held = file.read_row_groups([], columns=columns)
        self._others = 0

    def rows_of(self, ids: np.ndarray) -> pa.Table:
        """Returns the row of each id, null where there is none; ids must ascend, also from call to call."""
        rows = self._take_up_to(ids[-1])
        keys = rows["corpus_id"].to_numpy()
        first, after = (np.searchsorted(keys, ids, side) for side in ("left", "right"))
        self._others += len(keys) - int((first < after).sum())
        return rows.take(pa.array(first, mask=first == after))

    def count_others(self) -> int:
        """Counts the rows whose id was never requested; reads the file to its end."""
        return self._others + len(self._held) + sum(batch.num_rows for batch in self._batches)

    def _take_up_to(self, last: int) -> pa.Table:
        found = [self._held]
        while not len(found[-1]) or found[-1]["corpus_id"][-1].as_py() <= last:
            batch = next(self._batches, None)
            if batch is None:
                break
            found.append(pa.Table.from_batches([batch]))
        rows = pa.concat_tables(found)
        count = int(np.searchsorted(rows["corpus_id"].to_numpy(), last, side="right"))
        self._held = rows.slice(count)
        return rows.slice(0, count)


def _papers(records: pa.Table, abstracts: pa.Table, texts: pa.Table, counts: Counts) -> pa.Table:
    """Returns rows of PAPERS from tables whose rows belong to the same papers."""
    resolved = map(_resolved, records["publication_date"].to_pylist(), records["year"].to_pylist())
    days, precisions, unparseable, disagrees = zip(*resolved, strict=True)
    title = pc.call_function("utf8_trim", [records["title"]], pc.TrimOptions(characters=WHITESPACE))
    own = abstracts["abstract"]
    abstract = pc.call_function("coalesce", [own, texts["abstract"]])
    paragraphs = pc.call_function("list_value_length", [texts["paragraphs"]])
    has_full_text = pc.call_function("greater", [pc.fill_null(paragraphs, 0), 0])
    columns = {
        "title": pc.call_function("if_else", [pc.call_function("equal", [title, ""]), None, title]),
        "abstract": abstract,
        "has_full_text": has_full_text,
        "date": pa.array(days, pa.date32()),
        "date_precision": pa.array(precisions, pa.string()),
        "fields_of_study": _sorted_sets(records["fields_of_study"].combine_chunks()),
    }
    notes: dict[str, float] = {f"date_{precision}": number for precision, number in Counter(precisions).items()}
    notes["date_unparseable"] = sum(unparseable)
    notes["date_year_disagrees"] = sum(disagrees)
    notes["abstract_from_parser"] = own.null_count - abstract.null_count
    notes["with_abstract"] = len(records) - abstract.null_count
    notes["has_full_text"] = int(has_full_text.to_numpy().sum())
    counts.add(Counts(notes=notes))
    return pa.table({name: columns[name] if name in columns else records[name] for name in PAPERS.arrow.names})


def _sorted_sets(lists: pa.ListArray) -> pa.ListArray:
    """Returns each list sorted, without nulls and repetitions."""
    members = pa.table([pc.call_function("list_parent_indices", [lists]), lists.flatten()], ["list", "value"])
    distinct = members.group_by(["list", "value"], use_threads=False).aggregate([])
    distinct = distinct.filter(distinct["value"].is_valid()).sort_by([("list", "ascending"), ("value", "ascending")])
    offsets = np.searchsorted(distinct["list"].to_numpy(), np.arange(len(lists) + 1))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), distinct["value"].combine_chunks())
