"""The page that documents every table: `python -m schemas.tables_page > infra/TABLES.md`."""

import sys

import pyarrow as pa

from schemas.table import AnyTable, all_tables


def tables_page() -> str:
    """Markdown: a section per declared table, a row per column."""
    lines = [
        "# Tables",
        "",
        "Every Parquet table of an edition; made from `schemas/tables` by `python -m schemas.tables_page`.",
    ]
    for table in all_tables().values():
        lines += ["", *_section(table)]
    return "\n".join(lines) + "\n"


def _section(table: AnyTable) -> list[str]:
    lines = [f"## {table.name}", "", table.meaning]
    if table.key:
        lines.append(f"Key: {', '.join(table.key)}. Rows of a file ascend by: {', '.join(table.order) or 'arrival'}.")
    return [
        *lines,
        "",
        "| column | type | null | meaning | source |",
        "| --- | --- | --- | --- | --- |",
        *map(_row, table.arrow),
    ]


def _row(field: pa.Field) -> str:
    notes = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    meaning = f"{notes['meaning']} ({notes['unit']})" if "unit" in notes else notes["meaning"]
    cells = [f"`{field.name}`", str(field.type), "yes" if field.nullable else "no", meaning, notes.get("source", "")]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(tables_page())
