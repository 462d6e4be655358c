"""`arena export`: an edition in the formats of other tools."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.options import FLAT, Folder, open_store, writes_to
from flows.commands.terminal import show_json, show_text
from flows.pipeline.walk import choose_edition
from schemas.identifiers import EditionName
from tasks.exports.edition import open_edition
from tasks.exports.exporter import all_exporters, find_exporter, require_parts
from tasks.exports.part import Part

FORMATS = "; ".join(f"{name}: {found.description.rstrip('.')}" for name, found in all_exporters().items())


def export(
    edition: EditionName | None = None,
    *,
    to: Path,
    format: Annotated[str, Parameter(help=f"Which format. {FORMATS}.")] = "trec",
    part: Annotated[Part, FLAT] = Part(),
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Write an edition, or its public or private part, as files for other tools.

    Args:
        edition: Name of the edition; may be left out when there is only one.
        to: Folder to write to; files of the same names there are replaced.
        json: Print the paths as JSON.
    """
    exporter, store = find_exporter(format), open_store(folder)
    require_parts(format, part)
    opened = open_edition(store.root, choose_edition(store, edition), part)
    with writes_to(to):
        written = exporter.write(opened, to)
    if json:
        show_json({"edition": opened.name, "format": format, "files": [str(path) for path in written]})
    else:
        show_text(f"edition {opened.name} as {format}: {len(written)} files in {to}")
