"""Writes the generated pages of the reference: commands, settings, tables, plug-ins, public interface.

The build calls `write_pages` before Sphinx reads the sources. The pages are not committed.
"""

import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
from pydantic.fields import FieldInfo

import arena
import flows
import schemas
import tasks
from schemas.settings import Settings
from schemas.table import AnyTable, all_tables

PACKAGES = (schemas, tasks, flows)
BOUNDS = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"), ("pattern", "matches"))


def write_pages(folder: Path) -> None:
    """Writes `cli.md`, `settings.md`, `tables.md`, `plugins.md` and `api.md`, each only when its text has changed.

    Args:
        folder: The sources' folder `reference`.
    """
    pages = {
        "cli": cli_page,
        "settings": settings_page,
        "tables": tables_page,
        "plugins": plugins_page,
        "api": api_page,
    }
    for name, make in pages.items():
        path, text = folder / f"{name}.md", make().replace(str(Path.home()), "~")
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def cli_page() -> str:
    """Every command of `arena` with its options, as `--help` shows them."""
    from flows.cli import app

    text = app.generate_docs(output_format="markdown", recursive=True)
    contents, commands = text.split("## Table of Contents")[0], text.split("**Commands**:", 1)[1]
    contents = contents.replace("# arena", "# Commands", 1)
    return (
        f"{contents}Every command also takes `--help`, `--verbose` and `--debug`.\n\n**Commands**:{_escape(commands)}"
    )


def settings_page() -> str:
    """Every settings class with its fields: type, default, bounds and meaning."""
    lines = [
        "# Settings",
        "",
        "Settings are frozen Pydantic models. The options of a command, the form of a deployment and the parameters of",
        "a stage are fields of the classes below; an unknown name or a value out of bounds is refused.",
    ]
    for found in sorted(_settings_classes(), key=lambda found: (found.__qualname__, found.__module__)):
        lines += ["", f"## {found.__qualname__}", "", _first_paragraph(found), "", f"Module `{found.__module__}`.", ""]
        lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
        lines += [_settings_row(name, field) for name, field in found.model_fields.items()]
    return "\n".join(lines) + "\n"


def tables_page() -> str:
    """A section for each declared table, a row for each column."""
    lines = ["# Tables", "", "Every Parquet table of an edition, from the row classes in `schemas/tables`."]
    for table in all_tables().values():
        lines += ["", *_table_section(table)]
    return "\n".join(lines) + "\n"


def plugins_page() -> str:
    """Every registered plug-in, by kind, with the sentence that it says of itself."""
    lines = [
        "# Plug-ins",
        "",
        "Each plug-in is one file that a decorator registers; `arena plugins` lists those that are installed.",
        "How to add one: [](../contributing.md).",
    ]
    for (kind, group), found in itertools.groupby(arena.plugins(), key=lambda plugin: (plugin.kind, plugin.group)):
        lines += ["", f"## {kind[0].upper()}{kind[1:]}", "", f"Entry points of other packages: `{group}`.", ""]
        lines += ["| name | what it is |", "| --- | --- |"]
        lines += [f"| `{plugin.name}` | {_cell(plugin.description)} |" for plugin in found]
    return "\n".join(lines) + "\n"


def api_page() -> str:
    """What `arena` says of itself, then every name that it exports, for Sphinx to fill in from the docstrings."""
    lines = ["# The public interface", "", inspect.getdoc(arena) or ""]
    exported = {name: getattr(arena, name) for name in arena.__all__ if not name.startswith("_")}
    functions = [name for name, found in exported.items() if inspect.isroutine(found)]
    classes = [name for name, found in exported.items() if inspect.isclass(found)]
    others = [name for name in exported if name not in {*functions, *classes}]
    for title, directive, names in (
        ("Functions and decorators", "autofunction", functions),
        ("Classes", "autoclass", classes),
        ("Other types", "autodata", others),
    ):
        lines += ["", f"## {title}", "", "```{eval-rst}"]
        for name in names:
            lines += [f".. {directive}:: arena.{name}"] + ["   :members:"] * (directive == "autoclass") + [""]
        lines += ["```"]
    return "\n".join(lines) + "\n"


def _modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("sql_child"):  # a program, run in a process of its own
                yield importlib.import_module(found.name)


def _settings_classes() -> set[type[Settings]]:
    """The public settings classes with a description for every field of their own; others are records."""
    found: set[type[Settings]] = set()
    for module in _modules():
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Settings) and member.__module__ == module.__name__ and member.model_fields:
                described = all(field.description for field in member.model_fields.values())
                found |= {member} if described and not member.__name__.startswith("_") else set()
    return found


def _settings_row(field_name: str, field: FieldInfo) -> str:
    annotation = field.annotation
    kind = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
    kind = re.sub(r"Annotated\[(\w+), FieldInfo\(.*?\)\]\)\]", r"\1", kind)
    kind = re.sub(r"\btyping\.|\b(?:[a-z_]+\.)+(?=[A-Z])", "", kind)
    limits = ((sign, getattr(bound, name, None)) for bound in field.metadata for name, sign in BOUNDS)
    bounds = [f"{sign} {limit}" for sign, limit in limits if limit is not None]
    kind = f"{kind}, {', '.join(bounds)}" if bounds else kind
    default = "required" if field.is_required() else _code(field.get_default(call_default_factory=True))
    return "| " + " | ".join([f"`{field_name}`", _code(kind), default, _cell(field.description or "")]) + " |"


def _table_section(table: AnyTable) -> list[str]:
    lines = [f"## {table.name}", "", table.meaning, ""]
    if table.key:
        order = ", ".join(table.order) or "arrival"
        lines += [f"Key: {', '.join(table.key)}. Rows of a file ascend by: {order}.", ""]
    return [*lines, "| column | type | null | meaning | source |", "| --- | --- | --- | --- | --- |"] + [
        _table_row(field) for field in table.arrow
    ]


def _table_row(field: pa.Field) -> str:
    notes = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    meaning = f"{notes['meaning']} ({notes['unit']})" if "unit" in notes else notes["meaning"]
    cells = [str(field.type), "yes" if field.nullable else "no", meaning, notes.get("source", "")]
    return f"| `{field.name}` | " + " | ".join(map(_cell, cells)) + " |"


def _first_paragraph(documented: object) -> str:
    return (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ")


def _code(value: object) -> str:
    if isinstance(value, Settings):
        value = f"{type(value).__name__}()"
    text = str(value) if isinstance(value, str | int | float | Path) else repr(value)
    return "`" + text.replace("|", "\\|") + "`" if text else "empty"


def _cell(text: str) -> str:
    return _escape(text).replace("|", "\\|").replace("\n", " ")


def _escape(text: str) -> str:
    """Text in which `{...}` and `<...>` are no markup."""
    return text.replace("<", "\\<")
