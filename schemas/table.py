"""How a Parquet table is declared, once: the pyarrow schema, the validation and the documentation derive from it."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from schemas.errors import BadInput
from schemas.registry import Registry


@dataclass(frozen=True)
class Column:
    """One column: its type, what it means, and the rule for null."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    unit: str | None = None
    source: str | None = None

    @property
    def field(self) -> pa.Field:
        """The pyarrow field, with meaning, unit and source as metadata."""
        notes = {"meaning": self.meaning, "unit": self.unit, "source": self.source}
        return pa.field(self.name, self.type, self.nullable, {k: v for k, v in notes.items() if v})


@dataclass(frozen=True)
class Table:
    """One Parquet table of the project.

    Args:
        name: Snake-case plural noun; also the file prefix where the table is a side table of a dataset.
        meaning: One sentence: what a row is.
        columns: In file order.
        key: Columns that identify a row.
        order: Columns by which the rows of one file ascend (empty: arrival order).
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    @cached_property
    def arrow(self) -> pa.Schema:
        """The pyarrow schema."""
        return pa.schema([c.field for c in self.columns], metadata={"table": self.name, "meaning": self.meaning})

    def empty(self) -> pa.Table:
        """A table of this schema without rows."""
        return self.arrow.empty_table()

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


_registry = Registry[Table]("table", "schemas.tables")


def declare(table: Table) -> Table:
    """Registers a table under its name and returns it.

    Raises:
        ValueError: Another table has the name.
    """
    return _registry.add(table.name, table)


def all_tables() -> dict[str, Table]:
    """Every declared table by name: each file of `schemas/tables`."""
    return _registry.all()
