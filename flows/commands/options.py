"""Options that several commands share, and the stores and pipelines that they open."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, Token, convert
from cyclopts.validators import Number

from flows.pipeline.machine import Machine, StoreFolder
from flows.pipeline.stages import StageControl
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.store import Store

if TYPE_CHECKING:
    from flows.pipeline.walk import Pipeline

FLAT = Parameter(name="*")
"""Shows the fields of a settings object as options of the command."""


def _read_number(type_: type[Any], tokens: Sequence[Token]) -> Any:
    text = tokens[0].value
    if not text.isascii() or "_" in text:
        raise ValueError(f"{text!r}: write the number with the digits 0 to 9")
    return convert(type_, tokens)


NUMBER = Parameter(converter=_read_number)
"""Reads a number written with the digits 0 to 9: Python itself takes digits of other scripts, and `1_000`."""

Whole = Annotated[int, NUMBER]

Count = Annotated[int, Parameter(converter=_read_number, validator=Number(gte=1))]
"""A whole number from 1 upwards."""

Decimal = Annotated[float, NUMBER]

Folder = Annotated[StoreFolder | None, FLAT]


@contextmanager
def writes_to(path: Path) -> Generator[None]:
    """Adds the path to an error of the operating system that names none, as when a disk is full."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def open_store(folder: StoreFolder | None) -> Store:
    """Returns the store of the option `--root`, or of this machine."""
    return Store((folder or StoreFolder()).root)


def open_datasets(store: Store, edition: str | None) -> tuple[str, dict[str, Dataset]]:
    """Returns the name of an edition, None being the only one, and its datasets by slot."""
    from flows.pipeline.walk import choose_edition

    name = choose_edition(store, edition)
    return name, {slot: store.open(ref) for slot, ref in Editions(store).load(name).slots.items()}


@contextmanager
def open_pipeline(
    machine: Machine, edition: str | None, control: StageControl, *, new: bool = False
) -> "Generator[Pipeline]":
    """Opens the pipeline of an edition, which executes in this process and shows its progress."""
    from flows.commands.display import Display
    from flows.pipeline.walk import Pipeline, choose_edition

    store = Store(machine.root)
    name = edition if new and edition else choose_edition(store, edition)
    with Display() as display:
        yield Pipeline(store, name, display.executor(store, machine), control)
