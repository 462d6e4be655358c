"""Queries and results of the search benchmark, settings of its stages, and keys that identify a paper."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from schemas.identifiers import Field as DocumentField
from schemas.llm import ModelName
from schemas.settings import Settings

LEVELS = 6
"""Levels of relevance that a judge chooses from: 0 to 5."""

REPORTED = 20
"""Factor from a level to the reported score, 0 to 100."""

HIGH = 4
"""Smallest level that counts as a high score (reported as 80)."""

CUTOFFS = (1, 5, 10, 20)

KNOWN_DIMENSIONS: Mapping[str, frozenset[str]] = {
    "query_type": frozenset(
        {
            "Natural Language Queries",
            "How To",
            "Specific methodologies/techniques",
            "Major concepts/theories",
            "Highly technical terminology",
        }
    ),
    "length": frozenset({"Few words", "Sentence", "Multi-sentence"}),
    "problem_framing": frozenset({"Problem to solve", "Comparison to make", "Technique to learn", "Gap to identify"}),
    "specificity_level": frozenset({"Very specific", "Focused", "Broad"}),
    "research_stage": frozenset(
        {
            "Seeking comparisons",
            "Implementation focused",
            "Literature review",
            "Looking for gaps",
            "Starting research",
        }
    ),
}
"""Dimensions and values that the benchmark defines; others are kept, counted and logged as warnings."""


class SearchQuery(NamedTuple):
    """A query of a test set.

    Attributes:
        query_key: `<test set>/<key in its file>`, because the key alone is not unique.
        test_set: Name of the file without its ending.
        text: The text sent to an engine.
        dimensions: Values by dimension, as in the file.
    """

    query_key: str
    test_set: str
    text: str
    dimensions: Mapping[str, str]


class Found(NamedTuple):
    """A paper that a search engine returned.

    Attributes:
        title: The engine's title, as plain text.
        abstract: Empty if the engine has none.
        id: Identifier of the paper, best kind first: `doi:...`, `arxiv:...`, `corpusid:...`, `openalex:...`, or the
            engine's own id; empty if there is none.
        url: A page about the paper; empty if there is none.
        score: The engine's score; None if it returns only an order.
    """

    title: str
    abstract: str = ""
    id: str = ""
    url: str = ""
    score: float | None = None


ThinkingField = Literal["none", "google", "reasoning_effort", "chat_template"]
"""How an endpoint is told not to think before it answers; `none`: nothing is sent."""


class SearchSettings(Settings):
    """Which engines and judges take part, and how."""

    engines: tuple[str, ...] = Field(
        default=("bm25", "dense", "hybrid"),
        min_length=1,
        description="Engines: bm25, dense, hybrid, semantic_scholar, openalex, arxiv, file:PATH, url:ADDRESS, or one "
        "of another package; NAME=ENGINE gives one a name of its own. Added engines stand last.",
    )
    judges: tuple[str, ...] = Field(
        default=("paper_lantern",), min_length=1, description="Judges: NAME, or NAME:MODEL for a model of its own."
    )
    model: str | None = Field(default=None, description="Language model; empty: the machine's ARENA_LLM_MODEL.")
    field: DocumentField = Field(default="abstract", description="Which index an edition's engines search.")
    thinking: Literal["auto"] | ThinkingField = Field(
        default="auto",
        description="How judges' thinking is switched off, as the benchmark does: by Google's thinking budget of 0, "
        "reasoning_effort none, or a chat template's enable_thinking; auto: at Google's endpoint only.",
    )
    depth: int = Field(default=20, ge=1, le=1000, description="Papers of each list that are judged.")
    attempts: int = Field(default=1, ge=1, le=20, description="Times that every paper is judged, to see stability.")
    limit_queries: int | None = Field(default=None, ge=1, description="Development only: the first of each test set.")
    snapshot: str = Field(default="", description="Any word; another one asks live services again.")
    resamples: int = Field(default=10_000, ge=100, description="Of the bootstrap and of the randomisation test.")
    seed: int = Field(default=42, description="Of the order of judging and of resampling.")


class EngineSettings(Settings):
    """Which engine answers, and how many papers it returns."""

    engine: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name of the registered engine.")
    engine_version: int = Field(ge=1, description="Of the registered engine: a changed one gives other results.")
    source: str = Field(default="", description="Address of a `url` engine; empty for the others.")
    field: DocumentField | None = Field(default=None, description="Which index an edition's engine searches.")
    depth: int = Field(default=20, ge=1, le=1000, description="Papers asked for per query.")
    limit_queries: int | None = Field(default=None, ge=1, description="Development only: the first of each test set.")
    snapshot: str = Field(default="", description="Any word; another one asks live services again.")
    tag: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", description="Name of the engine in results.")

    @field_validator("source")
    @classmethod
    def _without_password(cls, source: str) -> str:
        if has_password(source):
            raise ValueError("an address must hold no user and password; set ARENA_URL_ENGINE_KEY")
        return source


def has_password(address: str) -> bool:
    """Returns whether an address holds a user or a password, which would be written into recipes and results."""
    return "@" in re.split(r"[/?#]", address.partition("//")[2], maxsplit=1)[0]


class JudgeSettings(Settings):
    """Which judge rates the results of which engines."""

    judge: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name of the registered judge.")
    judge_version: int = Field(ge=1, description="Of the registered judge: a changed one judges anew.")
    model: ModelName
    engines: tuple[str, ...] = Field(
        min_length=1,
        description="Tags of the engines whose results are pooled. Where they write a paper differently, the first "
        "one's text is judged: added engines stand last, and nothing is judged twice.",
    )
    depth: int = Field(default=20, ge=1, le=1000, description="Places of each list that are judged.")
    attempts: int = Field(default=1, ge=1, le=20, description="Times that every paper is judged.")
    thinking: ThinkingField = Field(default="none", description="What is sent to switch the model's thinking off.")
    seed: int = Field(default=42, description="Of the order in which papers are judged.")
    tag: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", description="Name of the judge in results.")


_DOI = re.compile(r"10\.\d{4,9}/\S+")
_ARXIV = re.compile(r"(?:[a-z-]+(?:\.[a-z]{2})?/\d{7}|\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)
_PREFIXES = ("doi", "arxiv", "corpusid", "s2", "openalex")


def paper_id(kind: str, value: str) -> str:
    """Normalizes an identifier: `doi:10...`, `arxiv:2401.00001` without version; a DOI of arXiv becomes an arXiv id."""
    value = value.strip().lower()
    if kind == "doi":
        value = re.sub(r"^(?:https?://(?:dx\.)?doi\.org/|doi:)", "", value)
        if value.startswith("10.48550/arxiv."):
            kind, value = "arxiv", value.removeprefix("10.48550/arxiv.")
    if kind == "arxiv":
        value = re.sub(r"v\d+$", "", value.removeprefix("arxiv:"))
    return f"{kind}:{value}" if value else ""


def plain_title(title: str) -> str:
    """Normalizes a title for comparison: letters and digits of any script, lower case, one blank between words."""
    folded = unicodedata.normalize("NFKC", title).casefold()
    return " ".join("".join(c if c.isalnum() else " " for c in folded).split())


def document_key(found: Found) -> str:
    """Returns the key of a result: its identifier, else one found in its address, else a digest of its title."""
    kind, colon, value = found.id.partition(":")
    if colon and kind.lower() in _PREFIXES:
        return paper_id(kind.lower(), value)
    for text in (found.id.strip(), _address_id(found.url)):
        if _DOI.fullmatch(text) or text.lower().startswith(("https://doi.org/", "http://doi.org/")):
            return paper_id("doi", text)
        if _ARXIV.fullmatch(text):
            return paper_id("arxiv", text)
    if title := plain_title(found.title):
        return "title:" + hashlib.sha256(title.encode()).hexdigest()[:24]
    return f"id:{found.id or found.url}"


def _address_id(url: str) -> str:
    """Returns the identifier in an address of doi.org or arxiv.org, or an empty text."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    host, path = (parts.hostname or "").removeprefix("www."), unquote(parts.path).strip("/")
    if host in ("doi.org", "dx.doi.org"):
        return path
    if host in ("arxiv.org", "export.arxiv.org") and path.startswith(("abs/", "pdf/")):
        return path[4:].removesuffix(".pdf")
    return ""
