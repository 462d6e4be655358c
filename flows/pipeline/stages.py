"""Which stages a command or a form lets people choose, and where a chosen stage is found."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from flows.pipeline.services import web_access
from schemas.llm_settings import BudgetSettings, Cap
from schemas.settings import Settings
from tasks.store import stages
from tasks.store.stage import AnyStage

if TYPE_CHECKING:
    StageChoice = str
else:  # the command line and the forms show a Literal as choices
    StageChoice = Literal[tuple(stages.declared_stages())]


Amount = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class StageControl(Settings):
    """Which stages run, and what they may spend; none of it changes a result."""

    force: tuple[StageChoice, ...] = Field(default=(), description="Stages to run again although their dataset exists.")
    until: StageChoice | None = Field(default=None, description="Stop after this stage; empty: run all stages.")
    max_usd: float | None = Field(
        default=None, ge=0, description="Total amount that the edition may spend on language models, in USD."
    )
    max_tokens: int | None = Field(
        default=None, ge=0, description="Total of tokens that the edition may have models read and write."
    )
    stage_usd: dict[str, Amount] = Field(
        default={}, description="Amounts that single stages may spend on language models, in USD, by stage."
    )
    stage_tokens: dict[str, Count] = Field(
        default={}, description="Tokens that single stages may have models read and write, by stage."
    )

    @field_validator("stage_usd", "stage_tokens")
    @classmethod
    def _known_stages(cls, caps: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(caps.keys() - set(stages.declared_stages())):
            raise ValueError(f"there is no stage {unknown[0]}; there are: {', '.join(stages.declared_stages())}")
        return caps

    def budget(self, run: str) -> BudgetSettings:
        """Returns the caps on what an edition may spend.

        Args:
            run: Name under which spending is summed: the edition's.
        """
        caps = {
            stage: Cap(usd=self.stage_usd.get(stage), tokens=self.stage_tokens.get(stage))
            for stage in {*self.stage_usd, *self.stage_tokens}
        }
        return BudgetSettings(run=run, cap=Cap(usd=self.max_usd, tokens=self.max_tokens), stages=caps)


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
