"""The parts of a plan: steps, engines, and the marks in the names of runs."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from schemas.errors import UsageError
from schemas.identifiers import Field
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import (
    LSA_DIMENSIONS,
    REQUIRED_DATASETS,
    EncoderSettings,
    RetrieverName,
    Settings,
    Stemming,
    TopicSample,
    TopicSubset,
)
from tasks.store.recipes import PlannedStage
from tasks.store.stage import AnyStage

_SHORT_NAMES = {"all-MiniLM-L6-v2": "minilm"}


class Step(NamedTuple):
    """One stage of a plan.

    Attributes:
        slot: Name under which the edition records the dataset.
        stage: The stage to execute.
        settings: Its parameters.
        inputs: For each input of the stage: a slot of an earlier step or of the edition, release files, or a dataset.
    """

    slot: str
    stage: AnyStage
    settings: Settings
    inputs: Mapping[str, str | ReleaseDataset | Ref]

    def planned(self) -> PlannedStage:
        """Returns the step in the form that an edition's recipe stores."""
        inputs = {
            name: item.model_copy(update={"directory": item.directory.absolute()})
            if isinstance(item, ReleaseDataset)
            else item
            for name, item in self.inputs.items()
        }
        return PlannedStage(stage=self.stage.name, parameters=self.settings.model_dump(mode="json"), inputs=inputs)


class Engine(NamedTuple):
    """What the systems of a run search with: a retriever over a field, its encoder and its index.

    Attributes:
        retriever: Which engine.
        field: Which index.
        encoder: Encoder of the field's embeddings; None: the retriever uses none.
        ann: Kind of the field's approximate index; None: exact search.
        stemming: How the field's BM25 index reduces words.
        dimensions: Of the field's latent semantic index.
    """

    retriever: RetrieverName
    field: Field
    encoder: EncoderSettings | None = None
    ann: str | None = None
    stemming: Stemming = "none"
    dimensions: int = LSA_DIMENSIONS

    @property
    def inputs(self) -> dict[str, str]:
        """The slots of the indexes, by the input names of the run stage."""
        names = [*REQUIRED_DATASETS[self.retriever], *(["ann"] if self.ann else [])]
        return {name: f"{name}/{self.field}" for name in names}


def same_names(*names: str) -> dict[str, str]:
    """Returns inputs whose slots have the same names."""
    return {name: name for name in names}


def stemming_mark(stemming: Stemming) -> str:
    """Returns the mark of a BM25 index with English stems in the name of a run; empty for one without stemming."""
    return "" if stemming == "none" else "+stemmed"


def lsa_mark(dimensions: int) -> str:
    """Returns the mark of a latent semantic index with unusual dimensions, for example `+lsa100`; empty for 300."""
    return "" if dimensions == LSA_DIMENSIONS else f"+lsa{dimensions}"


def encoder_mark(encoder: EncoderSettings, usual: str = EncoderSettings().model) -> str:
    """Returns an encoder's mark in the name of a run, as `+minilm` or `+minilm+int8`; empty for the usual one."""
    precision = "" if encoder.precision == "fp32" else f"+{encoder.precision}"
    if encoder.model == usual:
        return precision
    name = encoder.model.rstrip("/").rpartition("/")[2]
    return "+" + (_SHORT_NAMES.get(name) or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")) + precision


def check_sample(settings: TopicSample, systems: Collection[str]) -> None:
    """Checks that the systems to be sampled are among those of the task.

    Raises:
        UsageError: A system is unknown to the task, or no size is given.
    """
    if unknown := sorted(set(settings.sample_systems) - set(systems)):
        raise UsageError(
            f"--sample-systems names {', '.join(unknown)}, and the systems to run are {', '.join(systems)}; "
            "name some of these"
        )
    if settings.sample_systems and settings.sample_topics is None:
        raise UsageError("--sample-systems needs the size of the sample; add --sample-topics")


def sample_mark(subset: TopicSubset) -> str:
    """Returns the marks of a run over part of the topics: `-first20`, `-sample200`, `-sample200s7` with seed 7."""
    if subset.sample_topics is None:
        return limit_mark(subset.limit_topics)
    seed = "" if subset.seed == TopicSubset().seed else f"s{subset.seed}"
    return f"{limit_mark(subset.limit_topics)}-sample{subset.sample_topics}{seed}"


def limit_mark(limit: int | None) -> str:
    """Returns the mark of a run over the first topics, questions or queries only, for example `-first20`."""
    return "" if limit is None else f"-first{limit}"
