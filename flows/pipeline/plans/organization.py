"""The steps of the organization task: mind-maps, outlines, trees and their scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from flows.pipeline.plans.ranking import plan_run
from flows.pipeline.plans.steps import Engine, Step, check_sample, encoder_mark, sample_mark
from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.release import ReleaseDataset
from schemas.settings import EncoderSettings, OrganizationSettings, RunSettings
from tasks.corpus.mindmaps import MindmapSettings, mindmaps
from tasks.organization.builder import Builder, find_builder
from tasks.organization.heading_vectors import label_encoder
from tasks.organization.organize import OrganizeSettings, organize
from tasks.organization.scores import TreeScoreSettings, choose_entities, tree_scores


class Source(NamedTuple):
    """Where a builder's references come from: its name in the tree's tag, and the slot of a run (None: the survey)."""

    name: str
    run: str | None = None


def plan_maps(maps: ReleaseDataset) -> list[Step]:
    """Returns the step that reads gold mind-maps that people transcribed."""
    return [Step("mindmaps", mindmaps, MindmapSettings(), {"topics": "topics", "maps": maps})]


@dataclass(frozen=True)
class OrganizationPlan:
    """Everything that decides the steps of an organization task.

    Attributes:
        settings: Which builders run, and which references they arrange.
        encoder: Encoder of the field's embeddings; None: there are none.
        open_engine: Returns what agents search with; called only when a builder needs an agent's outline.
        choose_model: Returns the model to ask; called only when a builder or agent asks one.
    """

    settings: OrganizationSettings
    encoder: EncoderSettings | None
    open_engine: Callable[[], Engine]
    choose_model: Callable[[], ModelName]

    def steps(self) -> list[Step]:
        """Returns the steps: outlines of the surveys' references, a tree per builder and source, scores of the trees.

        Raises:
            UsageError: There is no such builder, it lacks an index, it asks a model and none is set up, or a sample is
                for other builders.
        """
        check_sample(self.settings, self.settings.builders)
        builders = [find_builder(name) for name in self.settings.builders]
        outlines = {made_by.name: self._outline(made_by) for made_by in builders if self._needs_outline(made_by)}
        trees = [
            self._tree(made_by, source)
            for made_by in builders
            for source in self._sources(made_by, outlines.get(made_by.name))
        ]
        return [*outlines.values(), *trees, *map(self._scores, trees)]

    def _needs_outline(self, made_by: Builder) -> bool:
        return self.settings.oracle and "outline" in made_by.needs

    def _outline(self, made_by: Builder) -> Step:
        """Returns the run in which the agent with the builder's name searches the survey's own references."""
        settings = self.settings
        engine = self.open_engine()
        chosen = RunSettings(
            baselines=(made_by.name,),
            retrievers=(engine.retriever,),
            field=settings.field,
            **settings.subset_of(made_by.name).model_dump(),
        )
        return plan_run(made_by.name, engine, chosen, self.choose_model(), oracle=True)

    def _sources(self, made_by: Builder, outline: Step | None) -> list[Source]:
        runs = [Source(tag, f"run/{tag}") for tag in self.settings.runs]
        if "outline" in made_by.needs:
            own = [Source(outline.slot.removeprefix("outlines/"), outline.slot)] if outline else []
            return own + [source for source in runs if source.name.startswith(f"{made_by.name}.")]
        if "references" not in made_by.needs:
            return [Source("")]
        return [Source("oracle")] * self.settings.oracle + runs

    def _tree(self, made_by: Builder, source: Source) -> Step:
        settings = self.settings
        model = self.choose_model() if made_by.asks else None
        inputs = {slot: slot for slot in ("topics", "mindmaps", "documents")}
        if "vectors" in made_by.needs:
            inputs["embeddings"] = f"embeddings/{settings.field}"
            if self.encoder is None:
                raise UsageError(f"builder {made_by.name} needs embeddings; run: arena index --field {settings.field}")
        if source.run:
            inputs["run"] = source.run
        tag = self._tag(made_by, source, model)
        chosen = OrganizeSettings(
            builder=made_by.name,
            builder_version=made_by.version,
            references="run" if source.run else "oracle",
            depth=settings.depth,
            **settings.subset_of(made_by.name).model_dump(),
            model=model,
            tag=tag,
        )
        return Step(f"trees/{tag}", organize, chosen, inputs)

    def _tag(self, made_by: Builder, source: Source, model: ModelName | None) -> str:
        """Returns `<builder>`, `<builder>.oracle` or `<builder>.<run>`, then marks for what else decides the tree.

        The marks are `.<field>` whose embeddings it reads, `+<encoder>` unless it is the production encoder, `+<model>`
        that it asks, `-first<n>` when the topics are limited, and `-sample<n>` for a sample of them. A tree of an
        agent's outline has the run's name.
        """
        settings = self.settings
        if "outline" in made_by.needs:
            return source.name
        tag = f"{made_by.name}.{source.name}" if source.name else made_by.name
        if "vectors" in made_by.needs and self.encoder:
            tag += "" if source.run else f".{settings.field}"
            mark = encoder_mark(self.encoder)
            tag += "" if mark in tag else mark
        if model:
            tag += f"+{model.short}"
        return tag + sample_mark(settings.subset_of(made_by.name))

    def _scores(self, trees: Step) -> Step:
        return plan_tree_scores(trees.slot, tree_score_settings(self.settings))


def tree_score_settings(settings: OrganizationSettings) -> TreeScoreSettings:
    """Returns how the trees of a task are scored."""
    return TreeScoreSettings(
        encoder=label_encoder(settings.encoder),
        threshold=settings.threshold,
        distance=settings.distance,
        clip=settings.clip,
        entities=choose_entities(settings.entities, settings.entity_model),
        entity_model=settings.entity_model,
        seed=settings.seed,
    )


def plan_tree_scores(trees: str, rule: TreeScoreSettings) -> Step:
    """Returns the step that scores the trees in a slot."""
    slot = trees.replace("trees/", "tree_scores/", 1) + rule.mark
    return Step(slot, tree_scores, rule, {"trees": trees, "mindmaps": "mindmaps"})
