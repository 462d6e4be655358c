"""What a system of the leaderboards is: its names, its marks, and what it can be filtered by."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from schemas.llm import STAND_IN, ModelName
from schemas.settings import EncoderSettings
from schemas.submission import Kind
from tasks.ranking.views import FALLBACK_SHARE
from tasks.reports.blocks import Label, Mark
from tasks.reports.names import spoken_name
from tasks.store.dataset import Dataset

KINDS: Mapping[Kind, str] = {"desk_only": "desk only", "own_tools": "own tools", "closed": "closed"}
"""What a system may have used, in words."""

USUAL_ENCODER = EncoderSettings().model
"""Encoder of real editions: runs with another one are marked."""

FACETS = ("Engine", "Corpus", "Model", "Tools", "From")
"""What rows of a leaderboard can be filtered by."""


class System(NamedTuple):
    """A system as leaderboards show it.

    Attributes:
        label: Names, marks and page.
        facets: Values in the order of `FACETS`.
    """

    label: Label
    facets: tuple[str, ...]


def describe_system(tag: str, made: Dataset, *, page: str = "", fallbacks: int = 0, of: int = 0) -> System:
    """Describes the system that made a dataset.

    Args:
        tag: Name of the run.
        made: Its rankings, trees, results or answers. Trees rest on the model and encoder of the run that they arrange.
        page: The system's page in the site.
        fallbacks: Topics for which something stood in for a failed model call.
        of: Topics in all.
    """
    settings, run = made.manifest.parameters, made.input("run")
    submitted = settings.get("system")
    model = _model_class(settings.get("model") or (run and run.manifest.parameters.get("model")))
    encoder = _encoder(made) or (run and _encoder(run))
    name = tag.replace("@", " ", 1) if submitted else spoken_name(tag, hidden=_hidden(tag, encoder))
    marks = tuple(_marks(settings, made.manifest.counts.notes, encoder, model))
    if fallbacks > FALLBACK_SHARE * of:
        marks += (Mark(f"{fallbacks} fallbacks", "On so many topics a fallback stood in for a failed model call."),)
    return System(Label(name, tag, marks, page), (
        spoken_name(_engine(tag, settings)),
        str(settings.get("field") or "-").replace("_", " "),
        model,
        KINDS[submitted["kind"]] if submitted else KINDS["desk_only"],
        "submitted" if submitted else "ours",
    ))  # fmt: skip


def _engine(tag: str, settings: dict[str, Any]) -> str:
    if settings.get("system"):
        return "its own"
    return str(settings.get("retriever") or settings.get("engine") or tag.partition(".")[0].partition("+")[0])


def _model_class(model: Any) -> str:
    if not isinstance(model, dict):
        return "none"
    return STAND_IN if model["provider"] == STAND_IN else ModelName.model_validate(model).short


def _encoder(made: Dataset) -> str | None:
    """Returns the encoder that a dataset rests on; None where it rests on none or it cannot be told."""
    embeddings = made.input("embeddings")
    return embeddings and embeddings.manifest.parameters["encoder"]["model"]


def _hidden(tag: str, encoder: str | None) -> set[str]:
    """Returns the parts of a tag that marks show: the stand-in, and the encoder, which is the first part."""
    parts = tag.split("+")[1:]
    found = {STAND_IN}
    if encoder and encoder != USUAL_ENCODER and parts:
        found.add(parts[0])
    return found


def _marks(settings: dict[str, Any], notes: dict[str, float], encoder: str | None, model: str) -> Iterator[Mark]:
    if model == STAND_IN:
        yield Mark(
            STAND_IN, "A program answered by rule in place of a language model: the figures say nothing about models."
        )
    if encoder and encoder != USUAL_ENCODER:
        yield Mark(
            f"encoder {encoder.rpartition('/')[2]}", f"Not {USUAL_ENCODER}: do not compare it with the paper's figures."
        )
    if system := settings.get("system"):
        yield Mark(f"submitted, {KINDS[system['kind']]}", "A system from outside, with what it may have used.")
        yield from _violations(notes)
    if settings.get("limit_topics") or settings.get("limit_questions") or settings.get("limit_queries"):
        yield Mark("first ones only", "Over the first topics, queries or questions only: for development.")
    if settings.get("sample_topics"):
        yield Mark("sample", "Over a sample of the topics, so it has no place among the others.")


def _violations(notes: dict[str, float]) -> Iterator[Mark]:
    if removed := int(sum(number for reason, number in notes.items() if reason != "outside")):
        yield Mark(f"{removed:,} violations", "So many documents were removed: forbidden, unknown or repeated ones.")
    if outside := int(notes.get("outside", 0)):
        yield Mark(f"{outside:,} from outside", "So many documents of its rankings the desk never showed to this run.")
