"""The composition of the organization task: mind-maps, trees, their scores.

What belongs here: steps as data. What does not: as in `plan`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from flows.plan import Step, short_name
from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.release import ReleaseDataset
from schemas.settings import EncoderSettings, OrganizationSettings
from tasks.corpus.mindmaps import MindmapSettings, mindmaps
from tasks.organization.builder import Builder, find_builder
from tasks.stats.labels import LABEL_ENCODER
from tasks.stats.organize import OrganizeSettings, organize
from tasks.stats.tree_scores import TreeScoreSettings, tree_scores


class Source(NamedTuple):
    """Where a builder's material is from: the name that the tree's tag gets, and the run's slot (None: the survey)."""

    name: str
    run: str | None = None


def plan_maps(maps: ReleaseDataset) -> list[Step]:
    """The gold mind-maps of a file that people transcribed."""
    return [Step("mindmaps", mindmaps, MindmapSettings(), {"topics": "topics", "maps": maps})]


def plan_organization(
    settings: OrganizationSettings, encoder: EncoderSettings | None, choose_model: Callable[[], ModelName]
) -> list[Step]:
    """Every builder with every source of references, then the scores of the trees.

    Args:
        settings: Which builders, of which references.
        encoder: Of the field's embeddings; None: there are none.
        choose_model: Which model is asked; called only when a builder asks one.

    Raises:
        UsageError: A builder is not known, lacks embeddings, or asks a model where there is none.
    """
    trees = [step for name in settings.builders for step in _trees(settings, name, encoder, choose_model)]
    rule = TreeScoreSettings(
        encoder=LABEL_ENCODER.model_copy(update={"model": settings.encoder}),
        threshold=settings.threshold,
        entities=settings.entities,
        seed=settings.seed,
    )
    return trees + [
        Step(
            step.slot.replace("trees/", "tree_scores/", 1),
            tree_scores,
            rule,
            {"trees": step.slot, "mindmaps": "mindmaps"},
        )
        for step in trees
    ]


def _trees(
    settings: OrganizationSettings, name: str, encoder: EncoderSettings | None, choose_model: Callable[[], ModelName]
) -> Iterator[Step]:
    made_by = find_builder(name)
    model = choose_model() if made_by.asks else None
    if "vectors" in made_by.needs and encoder is None:
        raise UsageError(
            f"builder {name} needs embeddings of field {settings.field}; run: arena index --field {settings.field}"
        )
    for source in _sources(settings, made_by):
        inputs = {slot: slot for slot in ("topics", "mindmaps", "documents")}
        if "vectors" in made_by.needs:
            inputs["embeddings"] = f"embeddings/{settings.field}"
        if source.run:
            inputs["run"] = source.run
        tag = _tag(settings, made_by, source, encoder, model)
        chosen = OrganizeSettings(
            builder=name,
            builder_version=made_by.version,
            references="run" if source.run else "oracle",
            depth=settings.depth,
            limit_topics=settings.limit_topics,
            seed=settings.seed,
            model=model,
            tag=tag,
        )
        yield Step(f"trees/{tag}", organize, chosen, inputs)


def _sources(settings: OrganizationSettings, made_by: Builder) -> list[Source]:
    runs = [Source(tag, f"run/{tag}") for tag in settings.runs]
    if "outline" in made_by.needs:
        return [source for source in runs if source.name.startswith(f"{made_by.name}.")]
    if "references" not in made_by.needs:
        return [Source("")]
    return [Source("oracle")] * settings.oracle + runs


def _tag(
    settings: OrganizationSettings,
    made_by: Builder,
    source: Source,
    encoder: EncoderSettings | None,
    model: ModelName | None,
) -> str:
    """`<builder>`, `<builder>.oracle` or `<builder>.<run>`, then what else decides the tree.

    That is `.<field>` whose embeddings it reads, `+<encoder>` unless the production encoder, `+<model>` that it asks,
    and `-first<n>` when the topics are limited. A builder of a run's outline is named as the run is.
    """
    if "outline" in made_by.needs:
        return source.name
    tag = f"{made_by.name}.{source.name}" if source.name else made_by.name
    if "vectors" in made_by.needs and encoder:
        tag += f".{settings.field}" if source.run is None else ""
        tag += "" if encoder.model == EncoderSettings().model else f"+{short_name(encoder.model)}"
    if model:
        tag += f"+{model.short}"
    return tag if settings.limit_topics is None else f"{tag}-first{settings.limit_topics}"
