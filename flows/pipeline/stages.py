"""Which stages a command or a form lets people choose, and where a chosen stage is found."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from flows.pipeline.services import web_access
from schemas.settings import Settings
from tasks.store import stages
from tasks.store.stage import AnyStage

if TYPE_CHECKING:
    StageChoice = str
else:  # the command line and the forms show a Literal as choices
    StageChoice = Literal[tuple(stages.declared_stages())]


class StageControl(Settings):
    """Which part of a flow executes; never part of a key."""

    force: tuple[StageChoice, ...] = Field(default=(), description="Stages to execute although their dataset is there.")
    until: StageChoice | None = Field(default=None, description="Last stage to run; empty: all.")
    max_usd: float | None = Field(
        default=None, ge=0, description="Cap on what the edition may spend on language models in all, in USD."
    )


def find_stage(name: str) -> AnyStage:
    """Returns the stage of that name; `search_results` comes with this machine's access to services on the web.

    Raises:
        UsageError: There is no such stage.
        MissingDependency: It needs a package that is not installed.
    """
    found = stages.find_stage(name)
    if found.name != "search_results":
        return found
    from tasks.search.results import with_web

    return with_web(web_access())
