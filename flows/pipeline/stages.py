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
    """Which stages run, and what they may spend; none of it changes a result."""

    force: tuple[StageChoice, ...] = Field(default=(), description="Stages to run again although their dataset exists.")
    until: StageChoice | None = Field(default=None, description="Stop after this stage; empty: run all stages.")
    max_usd: float | None = Field(
        default=None, ge=0, description="Total amount that the edition may spend on language models, in USD."
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
