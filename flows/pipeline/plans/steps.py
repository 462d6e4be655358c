"""What plans are made of: steps, engines, and the marks that tell similar runs apart in their names."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from schemas.identifiers import Field
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import EncoderSettings, RetrieverName, Settings
from tasks.store.recipes import PlannedStage
from tasks.store.stage import AnyStage

_SHORT_NAMES = {"all-MiniLM-L6-v2": "minilm"}


class Step(NamedTuple):
    """One stage of a plan.

    Attributes:
        slot: Under which name the dataset is recorded in the edition.
        stage: What is executed.
        settings: Its parameters.
        inputs: By the stage's input names: slot of an earlier step (or of the edition), release files, a dataset.
    """

    slot: str
    stage: AnyStage
    settings: Settings
    inputs: Mapping[str, str | ReleaseDataset | Ref]

    def planned(self) -> PlannedStage:
        """The step as an edition's recipe keeps it."""
        inputs = {
            name: item.model_copy(update={"directory": item.directory.absolute()})
            if isinstance(item, ReleaseDataset)
            else item
            for name, item in self.inputs.items()
        }
        return PlannedStage(stage=self.stage.name, parameters=self.settings.model_dump(mode="json"), inputs=inputs)


class Engine(NamedTuple):
    """What the systems of one run search with: a retriever over a field, and the edition's choices behind it.

    Attributes:
        retriever: Which engine.
        field: Which index.
        encoder: Of the field's embeddings; None when the retriever has no use for them.
        ann: Kind of the field's approximate index; None: exact search.
    """

    retriever: RetrieverName
    field: Field
    encoder: EncoderSettings | None = None
    ann: str | None = None

    @property
    def inputs(self) -> dict[str, str]:
        """The indexes' slots by the run stage's input names."""
        names = ["bm25"] if self.retriever != "dense" else []
        names += ["embeddings"] if self.encoder else []
        names += ["ann"] if self.ann else []
        return {name: f"{name}/{self.field}" for name in names}


def same_names(*names: str) -> dict[str, str]:
    """Inputs whose slot is named as the input is."""
    return {name: name for name in names}


def encoder_mark(model: str, usual: str = EncoderSettings().model) -> str:
    """What the name of a run says of its encoder: nothing of the usual one, else `+minilm`."""
    if model == usual:
        return ""
    name = model.rstrip("/").rpartition("/")[2]
    return "+" + (_SHORT_NAMES.get(name) or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"))


def limit_mark(limit: int | None) -> str:
    """What a name says when not all topics, questions or queries were asked: `-first20`."""
    return "" if limit is None else f"-first{limit}"
