"""What a stage is: a pure function from content-addressed inputs to an immutable dataset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from schemas.errors import StageFailed
from schemas.identifiers import StageName
from schemas.settings import Settings
from tasks.store.workspace import Workspace

P = TypeVar("P", bound=Settings)


@dataclass(frozen=True)
class Stage(Generic[P]):
    """A stage's name, version, settings type and function.

    Raise `version` whenever the result for the same inputs and settings can change: the key holds nothing else of
    the code. Calling the stage runs its function.
    """

    name: StageName
    version: int
    settings: type[P]
    function: Callable[[Workspace[P]], None]
    after: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def description(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").partition("\n")[0]

    def __call__(self, workspace: Workspace[P]) -> None:
        """Runs the stage's function in a workspace."""
        self.function(workspace)


AnyStage = Stage[Any]


def require_version(what: str, installed: int, planned: int) -> None:
    """Raises StageFailed when a plug-in has another version than the one that the settings name.

    Args:
        what: Begins the message: `stage run: baseline title`.
        installed: Its version.
        planned: The version in the settings.

    Raises:
        StageFailed: It has another version.
    """
    if installed != planned:
        raise StageFailed(
            f"{what} has version {installed}, the settings say {planned}; plan it again with the installed version"
        )


def stage(
    name: str, *, version: int, settings: type[P], after: str | None = None, inputs: Mapping[str, str] | None = None
) -> Callable[[Callable[[Workspace[P]], None]], Stage[P]]:
    """Declares a function as a stage. This is the only place where a stage is named: `tasks.store.stages` reads it.

    Args:
        name: Lower-case letters, digits and `_`; a literal, because it is read from the source.
        version: Raised when the result can change.
        settings: Type of its parameters; they enter the key whole.
        after: The stage that this one follows in the order of data, in which stages are listed and `--until` counts.
        inputs: Slots of an edition by the names under which the stage reads them, for a stage that no plan of this
            project names, or that an older edition lacks: `arena rerun` then adds it to an edition.
    """

    def decorate(function: Callable[[Workspace[P]], None]) -> Stage[P]:
        return Stage(StageName(name), version, settings, function, after, inputs or {})

    return decorate
