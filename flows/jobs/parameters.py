"""The parameters that many jobs share: which edition, which release, and what a run rarely changes."""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.upstream import Upstream
from schemas.identifiers import EDITION_PATTERN, RELEASE_PATTERN, EditionName, ReleaseName
from schemas.settings import Settings

NEWEST = "newest"

CHOICES = "x-choices"
"""Key of a field whose values are those of a list: the name of the list."""

Newest = Literal["newest"]

Edition = Annotated[
    EditionName, WithJsonSchema({"type": "string", "pattern": EDITION_PATTERN, CHOICES: "editions"}), Field()
]
"""An edition that exists; `newest`: that of the newest release."""

Release = Annotated[
    Newest | ReleaseName,
    WithJsonSchema({"type": "string", "pattern": rf"^newest$|{RELEASE_PATTERN}", CHOICES: "releases"}),
]
"""A release of the mirror; `newest`: the newest that was not refused."""

NewEdition = Annotated[
    EditionName | None,
    BeforeValidator(lambda name: name or None),
    WithJsonSchema({"type": "string", "pattern": rf"^$|{EDITION_PATTERN}", "default": ""}),
]
"""The name of an edition that may be new; an empty text is None."""


class Expert(Settings):
    """What a run rarely changes. Values given here win over those of the parameters with the same name."""

    settings: dict[str, Any] = Field(default_factory=dict, description="The other settings of the job.")
    control: StageControl | None = Field(default=None, description="Which stages execute, and what they may spend.")
    machine: Machine | None = Field(
        default=None, description="Folders and resources; left out: as the worker's environment says."
    )
    upstream: Upstream | None = Field(
        default=None, description="Where Semantic Scholar is; left out: as the worker's environment says."
    )


S = TypeVar("S", bound=Settings)


class Chosen(NamedTuple, Generic[S]):
    """What a run works with, wherever in the form it was given."""

    settings: S
    control: StageControl
    machine: Machine


def choose(settings: S, control: StageControl, machine: Machine | None, expert: Expert | None) -> Chosen[S]:
    """Returns what a run works with: values of the expert group, where there are some, win."""
    expert = expert or Expert()
    if expert.settings:
        settings = type(settings).model_validate(_merged(expert.settings, settings.model_dump(exclude_unset=True)))
    return Chosen(settings, expert.control or control, expert.machine or machine or Machine())


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Returns both, at every depth; where both have a value, that of the first."""
    both = {
        name: _merged(value, second[name]) if isinstance(value, dict) and isinstance(second.get(name), dict) else value
        for name, value in first.items()
    }
    return {**second, **both}
