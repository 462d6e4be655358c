"""The page that documents every table: `python -m schemas.tables_page > infra/TABLES.md`."""

import sys

from schemas.table import Column, Table, all_tables


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


def _section(table: Table) -> list[str]:
    lines = [f"## {table.name}", "", table.meaning]
    if table.key:
        lines.append(f"Key: {', '.join(table.key)}. Rows of a file ascend by: {', '.join(table.order) or 'arrival'}.")
    return [
        *lines,
        "",
        "| column | type | null | meaning | source |",
        "| --- | --- | --- | --- | --- |",
        *map(_row, table.columns),
    ]


def _row(column: Column) -> str:
    meaning = f"{column.meaning} ({column.unit})" if column.unit else column.meaning
    cells = [f"`{column.name}`", str(column.type), "yes" if column.nullable else "no", meaning, column.source or ""]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(tables_page())
