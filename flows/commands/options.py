"""What commands share: options that several have, and what is opened by them."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter

from flows.commands.terminal import Display
from flows.pipeline.machine import Machine, StoreFolder
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, choose_edition
from tasks.store.store import Store

FLAT = Parameter(name="*")
"""The fields of a settings object stand among the command's own options."""

Folder = Annotated[StoreFolder | None, FLAT]


def open_store(folder: StoreFolder | None) -> Store:
    """The store of the option `--root`, or of this machine."""
    return Store((folder or StoreFolder()).root)


@contextmanager
def open_pipeline(
    machine: Machine, edition: str | None, control: StageControl, *, new: bool = False
) -> Generator[Pipeline]:
    """The pipeline of an edition, executing here and showing what it does."""
    store = Store(machine.root)
    name = edition if new and edition else choose_edition(store, edition)
    with Display() as display:
        yield Pipeline(store, name, display.executor(store, machine), control)
