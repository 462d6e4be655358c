"""Parquet tables, each declared once as a row class: schema, validation and documentation derive from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa

from schemas.errors import BadInput
from schemas.registry import Registry

RowT = TypeVar("RowT", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Column:
    """What a field of a row class is in Parquet; the field's annotation says whether it may be null."""

    type: pa.DataType
    meaning: str
    unit: str | None = None
    source: str | None = None

    def field(self, name: str, *, nullable: bool) -> pa.Field:
        """The pyarrow field, with meaning, unit and source as metadata."""
        notes = {"meaning": self.meaning, "unit": self.unit, "source": self.source}
        return pa.field(name, self.type, nullable, {k: v for k, v in notes.items() if v})


@dataclass(frozen=True)
class Table(Generic[RowT]):
    """One Parquet table of the project.

    Args:
        name: Snake-case plural noun; also the file prefix where the table is a side table of a dataset.
        row: NamedTuple of one row. Its docstring's first line says what a row is; each field is annotated
            `Annotated[<type>, Column(...)]`, in file order, with `| None` where null is allowed.
        key: Columns that identify a row.
        order: Columns by which the rows of one file ascend (empty: arrival order).
    """

    name: str
    row: type[RowT]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """One sentence: what a row is."""
        return (self.row.__doc__ or "").partition("\n")[0]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The pyarrow schema."""
        hints = get_type_hints(self.row, include_extras=True)
        fields = [_field(name, hint) for name, hint in hints.items()]
        return pa.schema(fields, metadata={"table": self.name, "meaning": self.meaning})

    def empty(self) -> pa.Table:
        """A table of this schema without rows."""
        return self.arrow.empty_table()

    def of(self, rows: Iterable[RowT]) -> pa.Table:
        """An Arrow table of the given rows, in their order.

        Raises:
            BadInput: A value does not fit its column.
        """
        columns = list(zip(*rows, strict=True)) or [()] * len(self.arrow)
        try:
            arrays = [pa.array(values, field.type) for values, field in zip(columns, self.arrow, strict=True)]
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadInput(f"table {self.name}: {error}") from error
        return pa.Table.from_arrays(arrays, schema=self.arrow)

    def rows(self, table: pa.Table) -> list[RowT]:
        """The rows of an Arrow table as row objects; columns are taken by name.

        Raises:
            BadInput: A column is missing.
        """
        if missing := set(self.arrow.names) - set(table.column_names):
            raise BadInput(f"table {self.name}: no column {', '.join(sorted(missing))} in {table.column_names}")
        return [
            self.row(*values) for values in zip(*(table[name].to_pylist() for name in self.arrow.names), strict=True)
        ]

    def conform(self, table: pa.Table) -> pa.Table:
        """Returns `table` with exactly this table's schema.

        Columns are taken by name and cast where that is lossless.

        Raises:
            BadInput: A column is missing, too many, not castable, or null where null is not allowed.
        """
        if set(table.column_names) != set(self.arrow.names):
            raise BadInput(f"table {self.name}: columns {table.column_names}, expected {self.arrow.names}")
        try:
            return table.select(self.arrow.names).cast(self.arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise BadInput(f"table {self.name}: {error}") from error


def _field(name: str, hint: Any) -> pa.Field:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"field {name}: annotate it as Annotated[<type>, Column(...)]")
    python_type, column = get_args(hint)
    return column.field(name, nullable=type(None) in get_args(python_type))


AnyTable = Table[Any]

_registry = Registry[AnyTable]("table", "schemas.tables")


def declare(table: Table[RowT]) -> Table[RowT]:
    """Registers a table under its name and returns it.

    Raises:
        ValueError: Another table has the name.
    """
    _registry.add(table.name, table)
    return table


def all_tables() -> dict[str, AnyTable]:
    """Every declared table by name: each file of `schemas/tables`."""
    return _registry.all()
