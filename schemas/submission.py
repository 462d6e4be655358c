"""What a system from outside hands in: who it is, and for each topic a ranking, a tree or an answer."""

from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from schemas.settings import TopicSubset
from schemas.tables.runs import SearchRow, StepRow

Task = Literal["discovery", "selection", "organization", "paperqa"]
"""What a run answers. Discovery and selection are two views of one ranking."""

Kind = Literal["desk_only", "own_tools", "closed"]
"""What a system may have used: the desk alone, tools of its own beside it, or nobody outside knows."""

Status = Literal["scored", "failed", "over_budget", "refused"]
"""How a system says that it ended on a topic."""

MOST_DOCUMENTS = 1000
"""Documents of a ranking."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,97}$"
"""What a system and its version may be named: together they name a run."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class System(_Form):
    """A system from outside, as its makers describe it."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the system, part of the name of its runs.")
    version: str = Field(
        pattern=NAME_PATTERN, coerce_numbers_to_str=True, description="Version: a changed system is another run."
    )
    description: str = Field(default="", max_length=1000, description="What the system does.")
    contact: str = Field(default="", max_length=200, description="Who answers for it; never shown.")
    kind: Kind = Field(
        default="own_tools",
        description="What it may have used: the desk alone, tools of its own beside it, or nobody outside knows.",
    )

    @property
    def run(self) -> str:
        """The name of the system's run in an edition."""
        return f"{self.name}@{self.version}"


class Sample(_Form):
    """A random sample of an edition's topics, drawn as for the project's own systems."""

    topics: int = Field(ge=1, description="Number of topics.")
    seed: int = Field(default=TopicSubset().seed, description="Seed of the draw.")


class Usage(_Form):
    """What a system says that it spent on a topic."""

    input_tokens: int = Field(default=0, ge=0, le=2**62, description="Tokens that models read.")
    output_tokens: int = Field(default=0, ge=0, le=2**62, description="Tokens that models wrote.")
    usd: float = Field(default=0, ge=0, allow_inf_nan=False, description="Price in USD.")
    seconds: float = Field(default=0, ge=0, allow_inf_nan=False, description="Time from the topic to the answer.")


class Submission(_Form):
    """What a system hands in for one topic."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ranking": [10000037, 10000074], "status": "scored"}]})

    ranking: list[int] | None = Field(
        default=None, max_length=MOST_DOCUMENTS, description="corpus_ids, best first (all tasks but paperqa)."
    )
    tree: dict[str, JsonValue] | None = Field(
        default=None, description='A node {"label": text, "children": [nodes]} (organization).'
    )
    answer: JsonValue = Field(default=None, description="The answer (paperqa).")
    usage: Usage = Field(default=Usage(), description="What it took.")
    status: Status = Field(default="scored", description="How the system ended.")
    note: str | None = Field(default=None, description="Why, where it is not `scored`.")


class Header(_Form):
    """The first line of a file of submissions; what it leaves out, the options of the command say."""

    system: System | None = None
    edition: str | None = None
    task: Task | None = None
    sample: Sample | None = None


class Handed(NamedTuple):
    """What was handed in for a topic, and what the desk knows of it.

    Attributes:
        submission: As it came.
        returned: Documents that the desk returned to the topic.
        searches: The topic's searches through the desk.
        steps: The first of them and of its readings, with papers.
    """

    submission: Submission
    returned: tuple[int, ...] = ()
    searches: tuple[SearchRow, ...] = ()
    steps: tuple[StepRow, ...] = ()


class Recorded(NamedTuple):
    """The record of a served run when it was handed in: the number of its rows, and the hash of the last."""

    rows: int
    head: str


class Entry(NamedTuple):
    """A run from outside.

    Attributes:
        system: Whose it is.
        task: What it answers.
        topics: By topic: the corpus_id of the survey, or the question's UUID, as text.
        sample: Which of the edition's topics it was to answer; None: all.
        recorded: Of a run that came through the served desk.
    """

    system: System
    task: Task
    topics: dict[str, Handed]
    sample: Sample | None = None
    recorded: Recorded | None = None

    @property
    def subset(self) -> TopicSubset:
        """The sample in the form of the project's own stages."""
        sample = self.sample
        return TopicSubset(sample_topics=sample.topics, seed=sample.seed) if sample else TopicSubset()
