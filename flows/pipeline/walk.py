"""Executes the steps of a plan for one edition, and records each finished dataset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flows.pipeline.models import choose_model, model_access
from flows.pipeline.plans.steps import Engine, Step
from flows.pipeline.runner import choose_runner
from flows.pipeline.stages import StageControl
from schemas.errors import ArenaError, UsageError
from schemas.identifiers import DatasetName, check_edition
from schemas.llm_settings import BudgetSettings
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import (
    REQUIRED_DATASETS,
    CorpusSettings,
    EncoderSettings,
    IndexSettings,
    OrganizationSettings,
    Resources,
    RetrieverName,
    RunSettings,
    Stemming,
)
from tasks.store.editions import Editions
from tasks.store.recipes import Recipes
from tasks.store.stage import P, Stage
from tasks.store.stages import stage_position
from tasks.store.store import Built, Request, Store
from tasks.store.workspace import Progress

if TYPE_CHECKING:
    from flows.pipeline.plans.corpus import Update

Slots = dict[str, Ref]

NO_EDITION = "no edition in {} yet; run: arena build"


class StageLabel(NamedTuple):
    """How to execute a request: the name to show, whether to force it, and what it may spend on models.

    `again`: outcomes of the subjects that are asked again, of a forced stage; empty: everything is made again.
    `place`: which stage of its walk it is, from 0, and how many there are.
    """

    slot: str
    forced: bool
    budget: BudgetSettings | None = None
    again: frozenset[str] = frozenset()
    place: tuple[int, int] = (0, 1)


Executor = Callable[[Request, StageLabel], Ref]


def build_labelled(
    store: Store, request: Request, resources: Resources, label: StageLabel, report: Callable[[Progress], None]
) -> Built:
    """Builds a request with the options of its label.

    Raises:
        ArenaError: The store or the stage failed; the message names the slot.
    """
    try:
        access = model_access(store.root, label.budget)
        runner = choose_runner(resources)
        return store.build(
            request, resources, force=label.forced, report=report, llm=access, runner=runner, again=label.again
        )
    except ArenaError as error:
        if request.stage.name in str(error):
            raise
        raise type(error)(f"stage {label.slot}: {error}") from error


@dataclass(frozen=True)
class Pipeline:
    """The pipeline of one edition.

    Attributes:
        store: Where the datasets are.
        edition: The edition that records each finished slot.
        execute: Turns a request into a dataset.
        control: Which stages are forced, and which is the last.

    Raises:
        UsageError: No edition can have that name; nothing is written.
    """

    store: Store
    edition: str
    execute: Executor
    control: StageControl = field(default_factory=StageControl)

    def __post_init__(self) -> None:
        try:
            check_edition(self.edition)
        except ValueError as error:
            raise UsageError(f"edition name {self.edition!r}: {error}") from error

    def build_corpus(self, settings: CorpusSettings, release: Mapping[DatasetName, ReleaseDataset]) -> Slots:
        """Builds documents, topics and qrels of a release; starts the edition when none has its name."""
        return self.walk(self.plan_corpus(settings, release), release=release["papers"].release)

    def plan_corpus(
        self, settings: CorpusSettings, release: "Mapping[DatasetName, ReleaseDataset] | Update"
    ) -> list[Step]:
        """Returns the steps of `build_corpus`, or of `update_corpus`."""
        from flows.pipeline.plans.corpus import plan_corpus, plan_update

        plan = plan_corpus if isinstance(release, Mapping) else plan_update
        return plan(settings, release, lambda: choose_model(self.store.root, settings.model))  # pyright: ignore[reportArgumentType]

    def update_corpus(self, settings: CorpusSettings, update: "Update") -> Slots:
        """Builds the same as `build_corpus`, from an earlier edition's records and the diffs since then."""
        return self.walk(self.plan_corpus(settings, update), release=update.release)

    def until(self, stage: str) -> "Pipeline":
        """Returns the same pipeline, which stops after a stage."""
        return replace(self, control=self.control.model_copy(update={"until": stage}))

    def build_indexes(self, settings: IndexSettings) -> Slots:
        """Builds the indexes over the edition's documents."""
        return self.walk(self.plan_indexes(settings))

    def plan_indexes(self, settings: IndexSettings) -> list[Step]:
        """Returns the steps of `build_indexes`."""
        from flows.pipeline.plans.index import plan_index

        return plan_index(settings)

    def run_systems(self, settings: RunSettings) -> Slots:
        """Runs the baselines on the edition's topics and scores the runs."""
        return self.walk(self.plan_runs(settings))

    def plan_runs(self, settings: RunSettings) -> list[Step]:
        """Returns the steps of `run_systems`."""
        from flows.pipeline.plans.ranking import plan_runs

        engines = [self._engine(name, settings) for name in settings.retrievers]
        return plan_runs(settings, engines, lambda own: choose_model(self.store.root, own or settings.model))

    def organize(self, settings: OrganizationSettings, maps: Path | None = None) -> Slots:
        """Builds trees for the topics that have a mind-map, and scores them.

        Args:
            settings: Which builders, and which references they arrange.
            maps: A file of transcribed mind-maps; None: the edition's own.
        """
        return self.walk(self.plan_trees(settings, maps))

    def plan_trees(self, settings: OrganizationSettings, maps: Path | None = None) -> list[Step]:
        """Returns the steps of `organize`."""
        from flows.pipeline.plans.organization import OrganizationPlan, plan_maps
        from tasks.corpus.mindmap_files import open_maps

        edition = Editions(self.store).load(self.edition)
        steps = plan_maps(open_maps(maps, edition.release)) if maps else []
        has_embeddings = f"embeddings/{settings.field}" in edition.slots
        searched = RunSettings(field=settings.field)
        plan = OrganizationPlan(
            settings,
            self.read_encoder(settings.field) if has_embeddings else None,
            open_engine=lambda: self._engine(settings.retriever, searched),
            choose_model=lambda: choose_model(self.store.root, settings.model),
        )
        return steps + plan.steps()

    def write_report(self) -> Slots:
        """Writes the report on every scored run and tree of the edition."""
        from flows.pipeline.plans.report import plan_report
        from tasks.reports.report import ReportSettings

        edition = Editions(self.store).load(self.edition)
        settings = ReportSettings(title=f"Edition {self.edition}", release=edition.release, edition=self.edition)
        return self.walk(plan_report(settings, edition.slots))

    def walk(self, steps: Sequence[Step], release: str | None = None) -> Slots:
        """Executes steps in order and records each finished slot.

        Args:
            steps: Each takes its inputs from earlier steps or from the edition.
            release: Release of a new edition; None: the edition exists and knows its release.

        Raises:
            UsageError: There is no such edition, or it lacks a slot that a step needs.
            ArenaError: A stage failed.
        """
        editions = Editions(self.store)
        known: Slots = {}
        if release is None or self.edition in editions.names():
            edition = editions.load(self.edition)
            release, known = release or edition.release, dict(edition.slots)
        frozen = self.edition in editions.names() and editions.load(self.edition).published is not None
        planned = {step.slot: step.planned() for step in steps}
        Recipes(self.store).plan(self.edition, release, planned, published=frozen)
        budget = self.control.budget(self.edition)
        built: Slots = {}
        for index, step in enumerate(steps):
            if self.control.until and stage_position(step.stage.name) > stage_position(self.control.until):
                continue
            request = Request(step.stage, step.settings, self.inputs_of(step, known | built))
            forced = step.stage.name in self.control.force
            label = StageLabel(step.slot, forced, budget, place=(index, len(steps)))
            built[step.slot] = self.execute(request, label)
            editions.record(self.edition, release, {step.slot: built[step.slot]})
        return built

    def inputs_of(self, step: Step, slots: Slots) -> dict[str, Ref | ReleaseDataset]:
        """Returns a step's inputs.

        Raises:
            UsageError: A slot that it needs is missing.
        """
        missing = [slot for slot in step.inputs.values() if isinstance(slot, str) and slot not in slots]
        if missing:
            raise UsageError(
                f"edition {self.edition} has no {', '.join(missing)}, which {step.slot} needs; {remedy(missing[0])}"
            )
        return {name: slots[source] if isinstance(source, str) else source for name, source in step.inputs.items()}

    def _engine(self, retriever: RetrieverName, settings: RunSettings) -> Engine:
        """Returns the engine, with the encoder and the kind of approximate index that the edition has for the field."""
        needed = REQUIRED_DATASETS[retriever]
        engine = Engine(retriever, settings.field)
        if "bm25" in needed:
            engine = engine._replace(stemming=self.read_stemming(settings.field))
        if "lsa" in needed:
            from tasks.index.lsa import lsa

            engine = engine._replace(dimensions=self._settings(lsa, settings.field).dimensions)
        if "embeddings" not in needed:
            return engine
        from tasks.index.ann import ann

        kind = self._settings(ann, settings.field).kind if settings.approximate else None
        return engine._replace(encoder=self.read_encoder(settings.field), ann=kind)

    def read_stemming(self, field: str) -> Stemming:
        """Returns how the edition's BM25 index of the field reduces words; `none` where there is no such index."""
        from tasks.index.bm25 import bm25

        has_index = f"bm25/{field}" in Editions(self.store).load(self.edition).slots
        return self._settings(bm25, field).stemming if has_index else "none"

    def read_encoder(self, name: str) -> EncoderSettings:
        """Returns the encoder of the embeddings in the edition's slot `embeddings/<name>`.

        Raises:
            UsageError: The edition has no such slot.
        """
        from tasks.index.embeddings import embeddings

        return self._settings(embeddings, name).encoder

    def _settings(self, stage: Stage[P], field: str) -> P:
        """Returns the settings that the edition's slot `<stage>/<field>` was made with."""
        slot = f"{stage.name}/{field}"
        slots = Editions(self.store).load(self.edition).slots
        if slot not in slots:
            raise UsageError(f"edition {self.edition} has no {slot}; {remedy(slot)}")
        return self.store.open(slots[slot]).manifest.settings(stage)


def choose_edition(store: Store, name: str | None) -> str:
    """Returns the name of the edition; None chooses the only one.

    Raises:
        UsageError: No edition has that name, or there are several to choose from.
    """
    editions = Editions(store)
    names = editions.names()
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UsageError(
            f"which edition? add --edition with one of: {', '.join(names)}" if names else NO_EDITION.format(store.root)
        )
    return editions.load(name).name


def newest_edition(store: Store) -> str:
    """Returns the name of the edition of the newest release; of several, that which is named after its release.

    Editions without documents, as those of AirQA, do not count.

    Raises:
        UsageError: There is none, or there are several and none is named after its release.
    """
    editions = Editions(store)
    found = [edition for edition in map(editions.load, editions.names()) if "documents" in edition.slots]
    newest = max((edition.release for edition in found), default=None)
    names = [edition.name for edition in found if edition.release == newest]
    if newest is None or (len(names) > 1 and newest not in names):
        raise UsageError(f"which edition? name one of: {', '.join(names)}" if names else NO_EDITION.format(store.root))
    return newest if newest in names else names[0]


def newest_published(store: Store) -> str | None:
    """Returns the name of the published edition of the newest release; of several, the one published last."""
    editions = Editions(store)
    published = [edition for edition in map(editions.load, editions.names()) if edition.published]
    newest = max(published, key=lambda edition: (edition.release, edition.published), default=None)
    return newest.name if newest else None


def remedy(slot: str) -> str:
    """Returns the command that builds a slot."""
    stage, _, name = slot.partition("/")
    if stage == "ann":
        return f"run: arena index --field {name} --ann hnsw"
    if stage in ("bm25", "embeddings"):
        return f"run: arena index --field {name}"
    if stage == "edges":
        return "run: arena rerun edges"
    if stage == "lsa":
        return f"run: arena index --field {name} --engine lsa"
    if stage == "mindmaps":
        return "run: arena run organization --maps FILE"
    return "run: arena run discovery" if stage in ("run", "scores") else "run: arena build"
