"""Writing and reading Parquet the same way everywhere, so that equal rows are equal bytes.

Every page has a checksum that is verified when the page is read. DuckDB and Polars do not verify it; what they read was
hashed when the dataset was opened (`tasks.store.hashes`).
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import StoreError
from schemas.messages import describe
from schemas.table import AnyTable, RowT, Table

ROW_GROUP = 64 * 1024
"""Rows of a row group; fixed, because it shows in the bytes."""


class TableWriter:
    """Writes batches of one declared table to one file; buffers so that row groups do not depend on the batches.

    Args:
        path: File to create.
        table: What the rows must conform to.
        row_group: Rows of a row group.
        level: zstd level.
        repeats: Whether values repeat, so that dictionaries pay. Tables of vectors never have them: components hardly
            repeat, and their dictionaries are slow to write and read.
    """

    def __init__(
        self, path: Path, table: AnyTable, *, row_group: int = ROW_GROUP, level: int = 3, repeats: bool = True
    ) -> None:
        self._table = table
        self._row_group = row_group
        vectors = any(pa.types.is_fixed_size_list(field.type) for field in table.arrow)
        self._writer = pq.ParquetWriter(
            path,
            table.arrow,
            compression="zstd",
            compression_level=level,
            use_dictionary=repeats and not vectors,
            write_page_checksum=True,
        )
        self._pending: list[pa.Table] = []
        self._waiting = 0
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Appends rows; raises BadInput when they do not conform."""
        conformed = self._table.conform(rows)
        self._pending.append(conformed)
        self._waiting += conformed.num_rows
        self.rows += conformed.num_rows
        while self._waiting >= self._row_group:
            self._flush(self._row_group)

    def _flush(self, rows: int) -> None:
        merged = pa.concat_tables(self._pending).combine_chunks()
        self._writer.write_table(merged.slice(0, rows), row_group_size=self._row_group)
        rest = merged.slice(rows)
        self._pending = [rest] if rest.num_rows else []
        self._waiting = rest.num_rows

    def close(self) -> None:
        """Writes what is buffered and the footer."""
        if self._waiting:
            self._flush(self._waiting)
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._writer.close()


def write_table(path: Path, table: AnyTable, rows: pa.Table | Iterable[pa.Table]) -> int:
    """Writes one file and returns its number of rows.

    Raises:
        BadInput: The rows do not conform to `table`.
    """
    with TableWriter(path, table) as writer:
        for batch in [rows] if isinstance(rows, pa.Table) else rows:
            writer.write(batch)
    return writer.rows


def write_rows(path: Path, table: Table[RowT], rows: Iterable[RowT]) -> int:
    """Writes row objects to one file and returns their number.

    Raises:
        BadInput: A value does not fit its column.
    """
    return write_table(path, table, table.of(rows))


class ParquetReader(pq.ParquetFile):
    """A Parquet file opened for reading; what cannot be read raises StoreError with the path.

    Args:
        path: The file.
        options: Further arguments of `pyarrow.parquet.ParquetFile`.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        with _naming(path):
            super().__init__(path, page_checksum_verification=True, **options)

    def read(self, *args: Any, **options: Any) -> pa.Table:
        """Reads the file."""
        with _naming(self.path):
            return super().read(*args, **options)

    def read_row_group(self, *args: Any, **options: Any) -> pa.Table:
        """Reads one row group."""
        with _naming(self.path):
            return super().read_row_group(*args, **options)

    def iter_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches."""
        with _naming(self.path):
            yield from super().iter_batches(*args, **options)


def read_table(path: Path, columns: list[str] | None = None, filters: Any = None) -> pa.Table:
    """Reads a file into memory.

    Args:
        path: The file.
        columns: Which columns; None: all.
        filters: Which rows, as for `pyarrow.parquet.read_table`.

    Raises:
        StoreError: A page does not have its checksum, or the file cannot be read for another reason.
    """
    with _naming(path):
        return pq.read_table(path, columns=columns, filters=filters, page_checksum_verification=True)


def read_tables(paths: Iterable[Path], columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The files' tables one after the other, in the order given."""
    for path in paths:
        yield read_table(path, columns)


def count_rows(path: Path) -> int:
    """Number of rows by the file's footer."""
    with _naming(path):
        return pq.read_metadata(path).num_rows


@contextmanager
def _naming(path: Path) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(
            f"{path}: cannot be read ({describe(error)}); if it is damaged: arena rerun --damaged"
        ) from error
