"""The settings of the pipeline: frozen, validated before anything runs, shown in forms and in `--help`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.identifiers import Field as DocumentField
from schemas.identifiers import RunName

CorpusRule = Literal["full_text", "abstract"]
SurveyScope = Literal["full_text", "references", "all"]
LinkSource = Literal["bibliography", "citations", "both"]
YearOnlySurvey = Literal["dec31", "jan1", "drop"]
RetrieverName = Literal["bm25", "dense", "hybrid", "lsa", "bm25_lsa", "hybrid_lsa"]
Stemming = Literal["none", "english"]
Precision = Literal["fp32", "bf16", "fp16", "int8"]
DistanceReading = Literal["ge", "free_ops", "aligned"]
BaselineName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


LSA_DIMENSIONS = 300
"""Usual dimensions of a latent semantic space."""

REQUIRED_DATASETS: Mapping[RetrieverName, tuple[str, ...]] = {
    "bm25": ("bm25",),
    "dense": ("embeddings",),
    "hybrid": ("bm25", "embeddings"),
    "lsa": ("lsa",),
    "bm25_lsa": ("bm25", "lsa"),
    "hybrid_lsa": ("bm25", "embeddings", "lsa"),
}
"""Index datasets that each retriever needs."""

Parameter = bool | int | float | str
"""A parameter of a system."""

Isolate = Literal["foreign", "always", "never"]
"""Which systems run in a process of their own: those of other packages, all, or none."""


class Settings(BaseModel):
    """Base of all settings: frozen, and unknown fields are refused.

    An empty text stands for None where None is the default: forms cannot send anything else for a field left empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_texts(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = cast(dict[str, Any], values)
        if "" not in given.values():
            return given
        empty = {name for name, field in cls.model_fields.items() if field.default is None and given.get(name) == ""}
        return {name: value for name, value in given.items() if name not in empty}


class Resources(Settings):
    """How much of the machine to use; none of these settings changes a result."""

    workers: int = Field(default=0, ge=0, le=256, description="Number of worker processes; 0: one per core.")
    memory_gib: float = Field(
        default=4.0, gt=0, description="Memory that DuckDB may use before it writes to disk, in GiB."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="Where encoders and FAISS run.")
    batch_size: int = Field(
        default=0, ge=0, le=4096, description="Texts that the encoder embeds at once; 0: 8 on a CPU, 64 on a GPU."
    )
    isolate: Isolate = Field(
        default="foreign",
        description="Systems that run in a process of their own, which can open neither the store nor the network: "
        "those of other packages, all, or none.",
    )
    runner: Literal["processes", "ray"] = Field(
        default="processes",
        description="Where shards run: in processes on this machine, or on the Ray cluster at RAY_ADDRESS "
        "(when it is not set, on a local Ray).",
    )


class CorpusSettings(Settings):
    """How documents, topics and relevance judgments are built from a release."""

    corpus: CorpusRule = Field(
        default="full_text",
        description="Papers that become documents: those with full text (as in the paper), or with title and abstract.",
    )
    buckets: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Number of files per dataset; a paper is stored in file corpus_id modulo this number. Empty: 16, "
        "or for a large release so many that each takes half a GiB of its compressed files.",
    )
    line_mib: int = Field(
        default=32,
        ge=1,
        le=1024,
        description="Longest line of a release that is read, in MiB; a longer one is put aside as too_long.",
    )
    survey_word: Literal["substring", "whole_word"] = Field(
        default="substring", description="How the word 'survey' must appear in the title of a candidate."
    )
    survey_scope: SurveyScope | None = Field(
        default=None,
        description="Papers that can be surveys: those with full text (as in the paper), with a bibliography or "
        "citations, or all; empty: full_text where documents need full text, otherwise all.",
    )
    survey_english: bool = Field(default=True, description="Take only papers in English as surveys, as in the paper.")
    survey_selector: BaselineName = Field(default="rules", description="Who decides whether a candidate is a survey.")
    references: LinkSource | None = Field(
        default=None,
        description="What links a survey to the papers it cites: the bibliography of its full text (as in the paper), "
        "the citations table, or both; empty: bibliography where documents need full text, otherwise both.",
    )
    mindmaps: Literal["none", "figures"] = Field(
        default="none",
        description="Where mind-maps come from: none are built, or a model reads them from the surveys' figures.",
    )
    figure_list_url: str | None = Field(
        default=None,
        description="URL of the list of a survey's figures, with {corpus_id}; empty: use the release's figures.",
    )
    figure_picture_url: str | None = Field(
        default=None,
        description="URL of a picture, with {corpus_id} and {picture}; needed together with the URL of the lists.",
    )
    model: str | None = Field(
        default=None, description="Language model that stages use; empty: ARENA_LLM_MODEL of the machine."
    )
    year_only_survey: YearOnlySurvey = Field(
        default="dec31", description="Horizon of a survey when only its year is known."
    )
    limit_documents: int | None = Field(
        default=None,
        ge=1,
        description="For development: keep all documents that a survey cites, and add others up to this number.",
    )

    @property
    def candidate_scope(self) -> SurveyScope:
        """Papers that can be surveys: as chosen, or as suits the corpus."""
        return self.survey_scope or ("full_text" if self.corpus == "full_text" else "all")

    @property
    def link_source(self) -> LinkSource:
        """What links surveys to the papers they cite: as chosen, or as suits the corpus."""
        return self.references or ("bibliography" if self.corpus == "full_text" else "both")

    @property
    def needs_full_texts(self) -> bool:
        """Whether nothing can be built from a release without full texts."""
        return "full_text" in (self.corpus, self.candidate_scope) or self.link_source == "bibliography"


class EncoderSettings(Settings):
    """A sentence encoder and how texts are passed to it."""

    model: str = Field(
        default="BAAI/bge-base-en-v1.5",
        description="Hub name or folder of a sentence-transformers model; 'all-MiniLM-L6-v2' also works offline.",
    )
    max_tokens: int = Field(
        default=512,
        ge=8,
        le=8192,
        description="Longer texts are cut after this number of tokens (or at the model's own limit).",
    )
    query_instruction: str = Field(default="", description="Text put before every query, but not before documents.")
    precision: Precision = Field(
        default="fp32",
        description="How the encoder computes: in fp32; bf16 or fp16, which suit GPUs; int8, twice as fast on a CPU. "
        "All but fp32 change vectors a little, and names of runs say so (+int8).",
    )


class IndexSettings(Settings):
    """Which indexes to build over the documents."""

    bm25_fields: tuple[DocumentField, ...] = Field(default=("abstract",), description="Fields that get a BM25 index.")
    stemming: Stemming = Field(
        default="none",
        description="How BM25 reduces words: not at all (as in the paper), or to English stems, which the names of "
        "runs then say (+stemmed).",
    )
    dense_fields: tuple[DocumentField, ...] = Field(default=("abstract",), description="Fields that get embeddings.")
    encoder: EncoderSettings = Field(
        default_factory=EncoderSettings, description="Encoder that computes the embeddings."
    )
    ann: Literal["flat", "ivf", "hnsw", "sq8"] = Field(
        default="flat",
        description="Exact search (flat) or an approximate index; its recall against exact search is recorded.",
    )
    lsa_fields: tuple[DocumentField, ...] = Field(
        default=(), description="Fields that get a latent semantic index, trained on the corpus alone."
    )
    lsa_dimensions: int = Field(
        default=LSA_DIMENSIONS,
        ge=2,
        le=2048,
        description="Dimensions of the latent semantic index; unless 300, the names of runs say them.",
    )


class TopicSubset(Settings):
    """The topics that a stage works on: all, the first ones, or a sample."""

    limit_topics: int | None = Field(default=None, ge=1, description="Development only: the first topics by id.")
    sample_topics: int | None = Field(
        default=None, ge=1, description="Topics of a random sample that is stratified by field of study and year."
    )
    seed: int = Field(default=42, description="Seed of all random choices.")


class TopicSample(Settings):
    """Which topics the systems of a task work on."""

    limit_topics: int | None = Field(
        default=None, ge=1, description="For development: use only this many topics, by ascending id."
    )
    sample_topics: int | None = Field(
        default=None,
        ge=1,
        description="Use only a random sample of this many topics, drawn with the seed so that each field of study and "
        "year has its share.",
    )
    sample_systems: tuple[BaselineName, ...] = Field(
        default=(), description="Systems that use only the sample, such as storm; empty: all of them."
    )

    seed: int = Field(default=42, description="Seed of all random choices.")

    def subset_of(self, system: str) -> TopicSubset:
        """Returns the topics of a system."""
        sampled = not self.sample_systems or system in self.sample_systems
        size = self.sample_topics if sampled else None
        return TopicSubset(limit_topics=self.limit_topics, sample_topics=size, seed=self.seed)


class OwnSettings(Settings):
    """Settings of one system."""

    parameters: dict[str, Parameter] = Field(default={}, description="What the system reads from kit.parameters.")
    model: str | None = Field(default=None, description="Language model that it uses; empty: that of the run.")
    timeout_s: float | None = Field(
        default=None, gt=0, description="Seconds for a topic, after which its outcome is failed; empty: an hour."
    )
    files: tuple[str, ...] = Field(default=(), description="Files and folders that its process may also read.")
    network: bool = Field(default=False, description="Whether its process may open TCP connections.")


class RunSettings(TopicSample):
    """Which systems to run on which indexes."""

    baselines: tuple[BaselineName, ...] = Field(default=("title", "feedback"), description="Systems to run.")
    retrievers: tuple[RetrieverName, ...] = Field(
        default=("bm25", "dense", "hybrid"), description="Retrievers that the systems search with."
    )
    field: DocumentField = Field(default="abstract", description="Field whose index is searched.")
    approximate: bool = Field(
        default=False, description="Search the embeddings with the field's approximate index instead of exactly."
    )
    cutoff: int = Field(default=100, ge=1, le=10_000, description="Number of documents to return for a topic.")
    model: str | None = Field(
        default=None, description="Language model that systems use; empty: ARENA_LLM_MODEL of the machine."
    )
    own: dict[str, OwnSettings] = Field(
        default={}, description="Settings of single systems, by name; the names of their runs show that they have some."
    )
    seed: int = Field(default=42, description="Seed of all random choices, such as bootstrap samples.")


class OrganizationSettings(TopicSample):
    """Which builders organize which references, and how their trees are scored."""

    builders: tuple[BaselineName, ...] = Field(
        default=("clustering", "clustering_collapse", "themes", "single"), description="Builders to run."
    )
    oracle: bool = Field(default=True, description="Build trees from the surveys' own references.")
    runs: tuple[RunName, ...] = Field(
        default=(), description="Tags of runs of the edition: also build trees from what these systems found."
    )
    field: DocumentField = Field(default="abstract", description="Field whose embeddings represent the references.")
    depth: int = Field(default=100, ge=1, description="Number of documents to take from the top of a run.")
    retriever: RetrieverName = Field(
        default="bm25",
        description="Retriever with which agents search the surveys' own references to write an outline.",
    )
    encoder: str = Field(
        default="paraphrase-MiniLM-L6-v2",
        description="Sentence encoder for headings; 'all-MiniLM-L6-v2' also works offline.",
    )
    threshold: float = Field(
        default=0.8, ge=-1, le=1, description="Two headings match when their similarity is above this value."
    )
    distance: tuple[DistanceReading, ...] = Field(
        default=(),
        description="Other readings of the tree semantic distance, shown in the scores' names: headings also match at "
        "the threshold itself (ge); deleting and inserting headings that match is free as well (free_ops); siblings "
        "are first put in the gold map's order (aligned).",
    )
    clip: bool = Field(default=False, description="Cut cosines to 0..1 in heading soft recall; shown in the names.")
    entities: Literal["auto", "flair", "rules"] = Field(
        default="auto",
        description="Whether FLAIR finds entities for HER: where it and its model are on this machine (auto), always "
        "(flair; downloads the model), or never (rules). HER (rules), by spelling rules, is always there.",
    )
    entity_model: str = Field(
        default="flair/ner-english",
        description="FLAIR's tagger: a name on the Hugging Face hub, or a file. Loading it runs code from the file.",
    )
    model: str | None = Field(
        default=None, description="Language model that builders use; empty: ARENA_LLM_MODEL of the machine."
    )
    seed: int = Field(default=42, description="Seed of the choice of examples and of the bootstrap.")
