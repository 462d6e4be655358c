"""What a maintainer can choose: frozen settings, validated before anything runs, shown as forms and as `--help`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.identifiers import Field as DocumentField

CorpusRule = Literal["full_text", "abstract"]
YearOnlySurvey = Literal["dec31", "jan1", "drop"]
RetrieverName = Literal["bm25", "dense", "hybrid"]
BaselineName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Settings(BaseModel):
    """Base of all settings: frozen, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(Settings):
    """What a machine gives; no choice here may change a result."""

    workers: int = Field(default=0, ge=0, le=256, description="Processes for sharded stages; 0: one per core.")
    memory_gib: float = Field(default=4.0, gt=0, description="Memory that DuckDB may take before it spills, in GiB.")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="Where encoders and FAISS run.")
    batch_size: int = Field(default=64, ge=1, le=4096, description="Texts per encoder batch.")
    runner: Literal["processes", "ray"] = Field(
        default="processes",
        description="Where sharded stages run: in processes of this machine, or on the Ray cluster of RAY_ADDRESS "
        "(without one, on a Ray of this machine).",
    )


class CorpusSettings(Settings):
    """From release files to documents, topics and qrels."""

    corpus: CorpusRule = Field(
        default="full_text",
        description="Which papers are documents: those with full text (the paper's rule), or with title and abstract.",
    )
    buckets: int = Field(
        default=16, ge=1, le=4096, description="Files per dataset; a paper's file is corpus_id modulo this."
    )
    survey_word: Literal["substring", "whole_word"] = Field(
        default="substring", description="How a title must contain 'survey' to be a candidate."
    )
    survey_selector: BaselineName = Field(default="rules", description="Who decides whether a candidate is a survey.")
    mindmaps: Literal["none", "figures"] = Field(
        default="none", description="Where mind-maps are read from: nowhere, or the figures of surveys, by a model."
    )
    figure_list_url: str | None = Field(
        default=None, description="URL of a survey's list of figures, with {corpus_id}; empty: the release's figures."
    )
    figure_picture_url: str | None = Field(
        default=None, description="URL of a picture, with {corpus_id} and {picture}; goes with that of the lists."
    )
    model: str | None = Field(
        default=None, description="Language model of the stages that ask one; empty: the machine's ARENA_LLM_MODEL."
    )
    year_only_survey: YearOnlySurvey = Field(
        default="dec31", description="Horizon of a survey of which only the year is known."
    )
    limit_documents: int | None = Field(
        default=None,
        ge=1,
        description="Development only: keep every document that a survey cites, and others up to this many.",
    )


class EncoderSettings(Settings):
    """A sentence encoder and how it is used."""

    model: str = Field(
        default="BAAI/bge-base-en-v1.5",
        description="Hub name or folder of a sentence-transformers model; 'all-MiniLM-L6-v2' is found offline too.",
    )
    max_tokens: int = Field(
        default=512, ge=8, le=8192, description="Texts are cut at this many tokens (or the model's own limit)."
    )
    query_instruction: str = Field(default="", description="Prefix of queries, not of documents.")


class IndexSettings(Settings):
    """Which indexes are built over the documents."""

    bm25_fields: tuple[DocumentField, ...] = Field(default=("abstract",), description="A BM25 index per field.")
    dense_fields: tuple[DocumentField, ...] = Field(default=("abstract",), description="An embedding per field.")
    encoder: EncoderSettings = Field(default_factory=EncoderSettings, description="What makes the embeddings.")
    ann: Literal["flat", "ivf", "hnsw", "sq8"] = Field(
        default="flat",
        description="Exact search, or an approximate index whose recall against exact search is measured and recorded.",
    )


class RunSettings(Settings):
    """Which systems run over which indexes."""

    baselines: tuple[BaselineName, ...] = Field(default=("title", "feedback"), description="Systems to run.")
    retrievers: tuple[RetrieverName, ...] = Field(
        default=("bm25", "dense", "hybrid"), description="Engines they search with."
    )
    field: DocumentField = Field(default="abstract", description="Which index is searched.")
    approximate: bool = Field(
        default=False, description="Search embeddings through the field's approximate index instead of exactly."
    )
    cutoff: int = Field(default=100, ge=1, le=10_000, description="Rank depth of a run.")
    model: str | None = Field(
        default=None, description="Language model of the systems that ask one; empty: the machine's ARENA_LLM_MODEL."
    )
    limit_topics: int | None = Field(default=None, ge=1, description="Development only: the first topics by id.")
    seed: int = Field(default=42, description="Seed of everything random: bootstrap resampling, splits.")


class OrganizationSettings(Settings):
    """Which builders make mind-maps, of which references, and how their trees are scored."""

    builders: tuple[BaselineName, ...] = Field(
        default=("clustering", "clustering_collapse", "themes", "single"), description="Who makes the trees."
    )
    oracle: bool = Field(default=True, description="Make trees of the surveys' own references.")
    runs: tuple[str, ...] = Field(
        default=(), description="Tags of the edition's runs: make trees of what these systems found, too."
    )
    field: DocumentField = Field(default="abstract", description="Which embeddings describe the references.")
    depth: int = Field(default=100, ge=1, description="How many documents of a run are taken, from the top.")
    retriever: RetrieverName = Field(
        default="bm25", description="What agents search the surveys' own references with, to write an outline of them."
    )
    encoder: str = Field(
        default="paraphrase-MiniLM-L6-v2",
        description="Sentence encoder of headings; 'all-MiniLM-L6-v2' is found offline too.",
    )
    threshold: float = Field(default=0.8, ge=-1, le=1, description="Headings more similar than this match.")
    entities: Literal["rules", "flair"] = Field(
        default="rules", description="Who finds entities: FLAIR, or spelling rules (then the measure is her_fallback)."
    )
    model: str | None = Field(
        default=None, description="Language model of the builders that ask one; empty: the machine's ARENA_LLM_MODEL."
    )
    limit_topics: int | None = Field(default=None, ge=1, description="Development only: the first topics by id.")
    seed: int = Field(default=42, description="Of the choice of examples and of the bootstrap.")
