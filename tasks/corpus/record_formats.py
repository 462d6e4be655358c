"""How each dataset of a release is read: record to row, rows to tables, and which rows are duplicates."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.identifiers import DatasetName
from schemas.table import AnyTable
from schemas.tables.abstract_records import ABSTRACT_RECORDS
from schemas.tables.bibliography import BIBLIOGRAPHY
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.full_texts import FULL_TEXTS, PARAGRAPH, SECTION
from schemas.tables.paper_records import PAPER_RECORDS
from tasks.release.decode import (
    MAX_ID,
    Record,
    Row,
    decode_abstract,
    decode_citation,
    decode_paper,
    read_id,
    read_optional_id,
)
from tasks.release.s2orc import decode_s2orc, decode_s2orc_v2
from tasks.release.typed import DECODERS, BlockDecoder, Columns
from tasks.store.parquet import ROW_GROUP

ENTRY = pa.struct([pa.field(field.name, field.type) for field in list(BIBLIOGRAPHY.arrow)[2:]])
"""A bibliography entry without paper and position: an element of the list column `entries` of full texts, until
`Format.split` moves the entries to their own table."""

Integers = Sequence[np.ndarray]
Key = tuple[int, int]

ANYWHERE = -1
NOTHING = -2
"""First and second integer of the key of a row that no later record replaces."""


class Format(NamedTuple):
    """How one dataset is read.

    Attributes:
        tables: The main table, whose first order column decides the bucket, and side tables.
        decode: Turns a record into a row, and counts what it leaves out in the second argument.
        blocks: Decodes many lines at once where all are as documented.
        tabulate: Turns columns of values into a table with the main table's columns, and `entries` for full texts.
        identify: Integer columns that are equal for records of the same thing; the first is the bucket's key.
        arrange: Integer columns by which a file ascends, the most significant first.
        required: A row that is null in this column is dropped.
        keys: Returns two integers per row, `(n, 2)`, that are equal for records that replace each other from release to
            release. The first is the bucket's key, or `ANYWHERE` when such records can be in different buckets.
        read_key: Returns the same two integers for a record, or for an object that names a record to delete.
        split: Splits the rows of `tabulate` into rows of each of `tables`.
        key_columns: Columns of the main table that `keys` reads.
        row_group: Rows per row group of the main table.
        level: zstd level of the main table.
    """

    tables: tuple[AnyTable, ...]
    decode: Callable[[Record, Counter[str]], Row]
    blocks: BlockDecoder[Any]
    tabulate: Callable[[Columns], pa.Table]
    identify: Callable[[pa.Table], Integers]
    arrange: Callable[[pa.Table], Integers]
    required: str
    keys: Callable[[pa.Table], np.ndarray]
    read_key: Callable[[Record], Key]
    split: Callable[[pa.Table], tuple[pa.Table, ...]] = lambda rows: (rows,)
    key_columns: tuple[str, ...] = ("corpus_id",)
    row_group: int = ROW_GROUP
    level: int = 3

    @property
    def key(self) -> str:
        """The column that decides the bucket."""
        return self.tables[0].order[0]

    def empty(self) -> pa.Table:
        """Returns a table without rows as `tabulate` makes it."""
        fields = [pa.field(field.name, field.type) for field in self.tables[0].arrow]
        fields += [pa.field("entries", pa.list_(ENTRY))] if len(self.tables) > 1 else []
        return pa.schema(fields).empty_table()


def _plain(table: AnyTable) -> Callable[[Columns], pa.Table]:
    def tabulate(columns: Columns) -> pa.Table:
        pairs = zip(columns, table.arrow, strict=True)
        arrays = [_lists(v, f.type) if pa.types.is_list(f.type) else pa.array(v, f.type) for v, f in pairs]
        return pa.Table.from_arrays(arrays, table.arrow.names)

    return tabulate


def _tabulate_full_texts(columns: Columns) -> pa.Table:
    ids, titles, abstracts, sections, paragraphs, entries = columns
    arrays = [
        pa.array(ids, pa.int64()),
        pa.array(titles, pa.string()),
        pa.array(abstracts, pa.string()),
        _list_of_structs(sections, SECTION),
        _list_of_structs(paragraphs, PARAGRAPH),
        _list_of_structs(entries, ENTRY),
    ]
    return pa.Table.from_arrays(arrays, [*FULL_TEXTS.arrow.names, "entries"])


def _lists(lists: Sequence[Sequence[Any]], kind: pa.ListType) -> pa.ListArray:
    """Builds a list column from its flat values, which is faster than from nested Python objects."""
    offsets = pa.array([0, *accumulate(map(len, lists))], pa.int32())
    values = pa.array(list(chain.from_iterable(lists)), kind.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def _list_of_structs(lists: Sequence[list[tuple[Any, ...]]], kind: pa.StructType) -> pa.ListArray:
    """Builds a list column from flat columns, which is many times faster than from nested Python objects."""
    offsets = pa.array([0, *accumulate(map(len, lists))], pa.int32())
    columns = list(zip(*chain.from_iterable(lists), strict=True)) or [()] * kind.num_fields
    members = [pa.array(values, field.type) for values, field in zip(columns, kind, strict=True)]
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(members, fields=list(kind)))


def _split_bibliography(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Splits full texts and the rows of `bibliography`, both in the same order of papers."""
    entries = rows["entries"].combine_chunks()
    lengths = entries.value_lengths().to_numpy()
    starts = np.cumsum(lengths) - lengths
    flat = pa.Table.from_struct_array(entries.flatten())
    ids = pa.array(np.repeat(rows["corpus_id"].to_numpy(), lengths))
    positions = pa.array(np.arange(flat.num_rows) - np.repeat(starts, lengths), pa.int32())
    return rows.drop_columns("entries"), flat.add_column(0, "position", positions).add_column(0, "corpus_id", ids)


def _paper_id(rows: pa.Table) -> Integers:
    return (rows["corpus_id"].to_numpy(),)


def _paper_keys(rows: pa.Table) -> np.ndarray:
    ids = rows["corpus_id"].to_numpy()
    return np.stack([ids, np.zeros_like(ids)], axis=1)


def _read_paper_key(record: Record) -> Key:
    return read_id(record, "corpusid"), 0


def _integers(rows: pa.Table, column: str, null: int) -> np.ndarray:
    return pc.fill_null(rows[column].cast(pa.int64()), null).to_numpy()


def _edge_identity(rows: pa.Table) -> Integers:
    """Identifies an edge by its citation id, else by citing and cited paper; without a cited paper, by nothing."""
    ids, cited = _integers(rows, "citation_id", -1), _integers(rows, "cited_corpus_id", -1)
    alone = np.arange(len(ids)) - MAX_ID
    return rows["citing_corpus_id"].to_numpy(), np.where(ids >= 0, ids, np.where(cited >= 0, -1 - cited, alone))


def _edge_keys(rows: pa.Table) -> np.ndarray:
    """Returns the citation id, which may be in any bucket, or citing and cited paper where there is no id."""
    ids, cited = _integers(rows, "citation_id", -1), _integers(rows, "cited_corpus_id", NOTHING)
    first = np.where(ids >= 0, ANYWHERE, np.where(cited >= 0, rows["citing_corpus_id"].to_numpy(), NOTHING))
    return np.stack([first, np.where(ids >= 0, ids, cited)], axis=1)


def _read_edge_key(record: Record) -> Key:
    if (number := read_optional_id(record, "citationid")) is not None:
        return ANYWHERE, number
    return read_id(record, "citingcorpusid"), read_id(record, "citedcorpusid")


def _edge_order(rows: pa.Table) -> Integers:
    return (
        rows["citing_corpus_id"].to_numpy(),
        _integers(rows, "cited_corpus_id", MAX_ID),
        _integers(rows, "citation_id", MAX_ID),
        _integers(rows, "is_influential", 2),
    )


_FULL_TEXTS = Format(
    (FULL_TEXTS, BIBLIOGRAPHY),
    decode_s2orc,
    DECODERS["s2orc"],
    _tabulate_full_texts,
    _paper_id,
    _paper_id,
    required="corpus_id",
    keys=_paper_keys,
    read_key=_read_paper_key,
    split=_split_bibliography,
    row_group=256,  # some 15 MB
    level=1,  # a tenth larger than level 3, written in half the time
)

FORMATS: dict[DatasetName, Format] = {
    "papers": Format(
        (PAPER_RECORDS,),
        decode_paper,
        DECODERS["papers"],
        _plain(PAPER_RECORDS),
        _paper_id,
        _paper_id,
        "corpus_id",
        _paper_keys,
        _read_paper_key,
    ),
    "abstracts": Format(
        (ABSTRACT_RECORDS,),
        decode_abstract,
        DECODERS["abstracts"],
        _plain(ABSTRACT_RECORDS),
        _paper_id,
        _paper_id,
        "abstract",
        _paper_keys,
        _read_paper_key,
    ),
    "citations": Format(
        (CITATION_RECORDS,),
        decode_citation,
        DECODERS["citations"],
        _plain(CITATION_RECORDS),
        _edge_identity,
        _edge_order,
        "citing_corpus_id",
        _edge_keys,
        _read_edge_key,
        key_columns=("citing_corpus_id", "cited_corpus_id", "citation_id"),
    ),
    "s2orc": _FULL_TEXTS,
    "s2orc_v2": _FULL_TEXTS._replace(decode=decode_s2orc_v2, blocks=DECODERS["s2orc_v2"]),
}
