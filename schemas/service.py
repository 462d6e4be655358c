"""What the served desk is asked and answers: one form for REST, MCP and the definitions of its tools."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from schemas.settings import RetrieverName, Settings
from schemas.submission import Sample, System, Task

MOST_HITS = 1000
MOST_READ = 100
LONGEST_QUERY = 20_000
"""Characters of a query."""

CorpusIdField = Annotated[int, Field(description="S2 corpus id of a document.")]


def _example(**value: Any) -> ConfigDict:
    return ConfigDict(frozen=True, extra="forbid", strict=True, json_schema_extra={"examples": [value]})


class Quotas(Settings):
    """How much a topic may use: searches and lookups, documents that are read, and seconds until it is handed in."""

    searches: int = Field(default=1000, ge=1, description="Searches, and lookups of references and citations.")
    documents: int = Field(default=10_000, ge=1, description="Documents or pages that are read.")
    seconds: int = Field(default=3600, ge=1, description="Time from the lease to the submission, in seconds.")


class QuotasLeft(BaseModel):
    """What is left of a topic's quotas."""

    searches: int
    documents: int
    seconds: int


class Search(BaseModel):
    """Searches the documents that the topic may see."""

    model_config = _example(query="graph neural networks for molecules", k=20)

    query: str = Field(max_length=LONGEST_QUERY, description="Words or a sentence.")
    k: int = Field(default=20, ge=1, le=MOST_HITS, description="Number of documents.")
    engine: RetrieverName | None = Field(default=None, description="Which engine; left out: the edition's best.")


class Documents(BaseModel):
    """Reads documents that the topic may see."""

    model_config = _example(ids=[10000037])

    ids: list[CorpusIdField] = Field(min_length=1, max_length=MOST_READ, description="Documents, in any order.")


class Neighbours(BaseModel):
    """Looks up papers along citations, as far as the topic may see both papers."""

    model_config = _example(id=10000037, k=100, offset=0)

    id: CorpusIdField
    k: int = Field(default=100, ge=1, le=MOST_HITS, description="Number of papers.")
    offset: int = Field(default=0, ge=0, le=2**62, description="Papers to leave out at the beginning.")


class References(Neighbours):
    """Looks up the papers that a document cites, as far as the topic may see both."""


class Citations(Neighbours):
    """Looks up the papers that cite a document, as far as the topic may see both."""


class Sql(BaseModel):
    """Runs one SELECT over the contents of the question's papers, in DuckDB's SQL."""

    model_config = _example(query="SELECT title FROM papers LIMIT 5")

    query: str = Field(max_length=LONGEST_QUERY, description="One SELECT statement.")


class Passages(BaseModel):
    """Finds passages of the question's papers."""

    model_config = _example(query="ablation of the attention heads", k=5)

    query: str = Field(max_length=LONGEST_QUERY, description="Words or a sentence.")
    k: int = Field(default=5, ge=1, le=50, description="Number of passages.")


class Page(BaseModel):
    """Shows a page of one of the question's papers as a picture."""

    model_config = _example(paper="00000000-0000-5000-8000-000000000000", page=1)

    paper: str = Field(max_length=100, description="UUID of the paper.")
    page: int = Field(ge=1, le=10_000, description="1 is the first page.")


class Calculate(BaseModel):
    """Computes an arithmetic expression."""

    model_config = _example(expression="(85.3 - 80) / 80 * 100")

    expression: str = Field(max_length=500, description="Numbers, operators and functions such as sqrt.")


class Hit(BaseModel):
    """A document that a search found."""

    rank: int
    corpus_id: int
    score: float
    title: str | None
    year: int | None


class SearchAnswer(BaseModel):
    """Documents, best first."""

    hits: list[Hit]
    engine: str
    quotas_left: QuotasLeft


class ReadDocument(BaseModel):
    """A document."""

    corpus_id: int
    title: str | None
    abstract: str | None
    year: int | None
    venue: str | None
    authors: list[str]


class DocumentsAnswer(BaseModel):
    """Documents in the order asked."""

    documents: list[ReadDocument]
    quotas_left: QuotasLeft


class LinkedPaper(BaseModel):
    """A paper at the other end of a citation."""

    corpus_id: int
    title: str | None
    year: int | None


class NeighboursAnswer(BaseModel):
    """Papers by ascending corpus_id, and how many there are in all."""

    papers: list[LinkedPaper]
    total: int
    quotas_left: QuotasLeft


class SqlAnswer(BaseModel):
    """The rows, or the error, as text."""

    result: str
    quotas_left: QuotasLeft


class FoundPassage(BaseModel):
    """A passage and where it stands."""

    paper: str
    title: str
    kind: str
    section: str | None
    page: int | None
    text: str


class PassagesAnswer(BaseModel):
    """Passages, best first."""

    passages: list[FoundPassage]
    quotas_left: QuotasLeft


class PageAnswer(BaseModel):
    """A page as a PNG in a data URL."""

    image: str
    quotas_left: QuotasLeft


class CalculateAnswer(BaseModel):
    """The value."""

    result: float
    quotas_left: QuotasLeft


class Violations(BaseModel):
    """Documents that were removed from a ranking."""

    unavailable: int
    duplicate: int


class SubmitAnswer(BaseModel):
    """What of a submission counts: documents of the ranking, else nodes of the tree, else answers."""

    accepted: int
    violations: Violations
    outside: int


class NewRun(BaseModel):
    """Opens a run."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "edition": "2026-01-06",
                    "task": "discovery",
                    "system": {"name": "my-agent", "version": "1", "kind": "desk_only"},
                    "sample": {"topics": 20, "seed": 42},
                }
            ]
        },
    )

    edition: str = Field(max_length=100)
    task: Task
    system: System
    sample: Sample | None = None


class OpenedRun(BaseModel):
    """A run that was opened: its name and token, how many topics it has, and what each may use."""

    run: str
    run_token: str
    topics: int
    quotas: Quotas


class Lease(BaseModel):
    """Leases topics of a run."""

    model_config = _example(n=1)

    n: int = Field(default=1, ge=1, le=1000, description="Number of topics.")


class LeasedTopic(BaseModel):
    """A topic, with the token for its calls."""

    topic: str
    topic_token: str
    title: str
    instructions: str
    quotas: QuotasLeft
    deadline: datetime


class LeasedTopics(BaseModel):
    """Topics that were leased, and how many are left to lease."""

    topics: list[LeasedTopic]
    remaining: int


class TopicCounts(BaseModel):
    """Topics of a run by state; `expired`: the lease ended without a submission, and the topic can be leased again."""

    total: int
    leased: int
    submitted: int
    expired: int


class RunStatus(BaseModel):
    """How far a run is."""

    state: Literal["open", "finished"]
    topics: TopicCounts
    outcomes: dict[str, int]
    scores: JsonValue = Field(default=None, description="Of a finished run: means over the public topics, by labels.")
    private_topics: int = Field(default=0, description="Topics of a finished run that `scores` leaves out.")


class TaskTopics(BaseModel):
    """How many topics a task has; 0: the edition does not have the task."""

    topics: int


class ServedEditionRow(BaseModel):
    """An edition that runs can be opened for."""

    name: str
    release: str
    published: datetime | None
    tasks: dict[Task, TaskTopics]


class EditionList(BaseModel):
    """The editions."""

    editions: list[ServedEditionRow]


class Health(BaseModel):
    """Says that the server answers."""

    status: Literal["ok"]
    version: str


class Problem(BaseModel):
    """An error (RFC 9457). `field` or `quota` is named where it is one."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    quota: str | None = None
