"""What an exporter is, and the registry of exporters."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from schemas.errors import UsageError
from schemas.registry import Registry
from tasks.exports.edition import Edition
from tasks.exports.part import Part


class Exporter(Protocol):
    """Writes an edition in one format."""

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes files into `folder` (created when absent) and returns their paths; equal input gives equal bytes.

        Raises:
            UsageError: The edition lacks what the format needs.
        """
        ...


@dataclass(frozen=True)
class RegisteredExporter:
    """A format: its name, one sentence for people who choose, its class, and whether it can write parts of editions."""

    name: str
    description: str
    format: type[Exporter]
    parts: bool = False


E = TypeVar("E", bound=type[Exporter])

_registry = Registry[RegisteredExporter]("exporter", "tasks.exports", group="arena.exporters")

all_exporters = _registry.all
"""Every exporter by name: each file of this folder, and the entry points of other packages."""


def exporter(name: str, description: str, *, parts: bool = False) -> Callable[[E], E]:
    """Registers a class, made without arguments, as an exporter.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it writes.
        parts: Whether it writes nothing of topics outside `edition.part`; other formats write whole editions alone.

    Raises:
        ValueError: Another exporter has the name.
    """

    def decorate(format_class: E) -> E:
        _registry.add(name, RegisteredExporter(name, description, format_class, parts))
        return format_class

    return decorate


def find_exporter(name: str) -> Exporter:
    """Returns the exporter of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    return _registry.find(name).format()


def require_parts(name: str, part: Part) -> None:
    """Checks that a format can write a part of an edition.

    Raises:
        UsageError: There is no such format, or it writes whole editions alone.
    """
    if not _registry.find(name).parts and part.split != "all":
        able = ", ".join(other for other, found in all_exporters().items() if found.parts)
        raise UsageError(f"format {name} writes whole editions alone; --split goes with: {able}")


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Writes a text file, and its folder where there is none; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path
