"""What an exporter is, what it gets, and the registry of exporters."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from schemas.errors import BadInput
from schemas.registry import Registry
from tasks.store.dataset import Dataset


@dataclass(frozen=True)
class Exported:
    """What there is to export.

    Attributes:
        topics: Dataset of stage `topics`: topics and qrels.
        runs: Datasets of stage `run`.
    """

    topics: Dataset
    runs: tuple[Dataset, ...] = ()

    def tagged_runs(self) -> dict[str, Dataset]:
        """Runs by tag, sorted; a tag is safe as a file name and as a column of a TREC file.

        Raises:
            BadInput: Two runs share a tag, or one holds other characters than letters, digits and `_.@+-`.
        """
        tagged: dict[str, Dataset] = {}
        for run in self.runs:
            tag = run.manifest.parameters["tag"]
            if tag in tagged:
                raise BadInput(f"export: two runs are tagged {tag!r}; export them to different folders")
            if not re.fullmatch(r"\w[\w.@+-]*", tag, re.ASCII):
                raise BadInput(f"export: {tag!r} cannot be a file name; run the system again under another tag")
            tagged[tag] = run
        return dict(sorted(tagged.items()))


class Exporter(Protocol):
    """Writes topics, qrels and runs in one format."""

    def write(self, exported: Exported, folder: Path) -> list[Path]:
        """Writes files into `folder` (created when absent) and returns their paths; equal input gives equal bytes."""
        ...


@dataclass(frozen=True)
class RegisteredExporter:
    """A format: name, one sentence for the help page, class."""

    name: str
    description: str
    format: type[Exporter]


E = TypeVar("E", bound=type[Exporter])

_registry = Registry[RegisteredExporter]("exporter", "tasks.exports")


def exporter(name: str, description: str) -> Callable[[E], E]:
    """Registers a class as an exporter.

    Raises:
        ValueError: Another exporter has the name.
    """

    def decorate(format_class: E) -> E:
        _registry.add(name, RegisteredExporter(name, description, format_class))
        return format_class

    return decorate


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Writes a text file, and its folder where there is none; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def all_exporters() -> dict[str, RegisteredExporter]:
    """Every exporter by name: each file of this folder."""
    return _registry.all()


def find_exporter(name: str) -> Exporter:
    """The exporter of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    return _registry.find(name).format()
