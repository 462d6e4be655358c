"""Executes plans for one edition: with which executor, what is forced, where it ends, what is recorded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from flows.pipeline.machine import Machine
from flows.pipeline.models import choose_model, model_access
from flows.pipeline.plans import plan
from flows.pipeline.plans.corpus import RECORD_STAGES, Update, plan_corpus, plan_update
from flows.pipeline.plans.plan import Engine, Step
from flows.pipeline.runner import choose_runner
from flows.pipeline.stages import StageControl
from schemas.errors import ArenaError, ReleaseError, UsageError
from schemas.identifiers import DatasetName, ReleaseId
from schemas.llm import BudgetSettings, Cap
from schemas.manifest import EditionManifest, Ref, ReleaseEntry
from schemas.release import ReleaseDataset
from schemas.settings import (
    CorpusSettings,
    EncoderSettings,
    IndexSettings,
    OrganizationSettings,
    Resources,
    RetrieverName,
    RunSettings,
)
from tasks.corpus.mindmap_files import open_maps
from tasks.release.diffs import list_ends, open_diffs
from tasks.release.gate import list_refused
from tasks.release.mirror import find_files, list_releases, open_figures, open_release
from tasks.reports.report import ReportSettings
from tasks.store.editions import Editions
from tasks.store.recipes import Recipes
from tasks.store.stages import stage_position
from tasks.store.store import Built, Request, Store
from tasks.store.workspace import Progress

Slots = dict[str, Ref]


class StageLabel(NamedTuple):
    """How a request is shown, whether it is executed although its dataset is there, what it may spend on models."""

    slot: str
    forced: bool
    budget: BudgetSettings | None = None


Executor = Callable[[Request, StageLabel], Ref]


def build_labelled(
    store: Store, request: Request, resources: Resources, label: StageLabel, report: Callable[[Progress], None]
) -> Built:
    """Builds a request as its label says.

    Raises:
        ArenaError: As the store and the stage say, with the slot in the message.
    """
    try:
        access = model_access(store.root, label.budget)
        runner = choose_runner(resources)
        return store.build(request, resources, force=label.forced, report=report, llm=access, runner=runner)
    except ArenaError as error:
        if request.stage.name in str(error):
            raise
        raise type(error)(f"stage {label.slot}: {error}") from error


@dataclass(frozen=True)
class Pipeline:
    """The pipeline of one edition.

    Attributes:
        store: Where datasets lie.
        edition: Name under which each finished slot is recorded.
        execute: Turns a request into a dataset.
        control: Which stages are forced, and which is the last.
    """

    store: Store
    edition: str
    execute: Executor
    control: StageControl = field(default_factory=StageControl)

    def build_corpus(self, settings: CorpusSettings, release: Mapping[DatasetName, ReleaseDataset]) -> Slots:
        """Builds documents, topics and qrels of a release; starts the edition when there is none of that name."""
        steps = plan_corpus(settings, release, lambda: choose_model(self.store.root, settings.model))
        return self.walk(steps, release=release["papers"].release)

    def update_corpus(self, settings: CorpusSettings, update: Update) -> Slots:
        """As `build_corpus`, from an earlier edition's records and the diffs since."""
        steps = plan_update(settings, update, lambda: choose_model(self.store.root, settings.model))
        return self.walk(steps, release=update.release)

    def until(self, stage: str) -> "Pipeline":
        """The same pipeline, which ends after a stage."""
        return replace(self, control=self.control.model_copy(update={"until": stage}))

    def build_indexes(self, settings: IndexSettings) -> Slots:
        """Builds the indexes over the edition's documents."""
        return self.walk(plan.plan_index(settings))

    def run_systems(self, settings: RunSettings) -> Slots:
        """Runs the baselines on the edition's topics and scores the runs."""
        return self.walk(self.plan_runs(settings))

    def plan_runs(self, settings: RunSettings) -> list[Step]:
        """The steps of `run_systems`."""
        engines = [self._engine(name, settings) for name in settings.retrievers]
        return plan.plan_runs(settings, engines, lambda: choose_model(self.store.root, settings.model))

    def organize(self, settings: OrganizationSettings, maps: Path | None = None) -> Slots:
        """Makes trees of the edition's topics with mind-maps, and scores them.

        Args:
            settings: Which builders, of which references.
            maps: A file of transcribed mind-maps; None: those that the edition has.
        """
        return self.walk(self.plan_trees(settings, maps))

    def plan_trees(self, settings: OrganizationSettings, maps: Path | None = None) -> list[Step]:
        """The steps of `organize`."""
        from flows.pipeline.plans import organization as plan_organization  # needs the extra `organize`

        edition = Editions(self.store).load(self.edition)
        steps = plan_organization.plan_maps(open_maps(maps, edition.release)) if maps else []
        slot = f"embeddings/{settings.field}"
        found = self._parameters("embeddings", settings.field)["encoder"] if slot in edition.slots else None
        encoder = EncoderSettings.model_validate(found) if found else None
        searched = RunSettings(field=settings.field)
        whole = plan_organization.OrganizationPlan(
            settings,
            encoder,
            open_engine=lambda: self._engine(settings.retriever, searched),
            choose_model=lambda: choose_model(self.store.root, settings.model),
        )
        return steps + whole.steps()

    def write_report(self) -> Slots:
        """Writes the report on everything of the edition that was scored."""
        edition = Editions(self.store).load(self.edition)
        settings = ReportSettings(title=f"Edition {self.edition}", release=edition.release, edition=self.edition)
        return self.walk(plan.plan_report(settings, edition.slots))

    def walk(self, steps: Sequence[Step], release: str | None = None) -> Slots:
        """Executes steps in order and records each finished slot.

        Args:
            steps: Each takes its inputs from earlier ones or from the edition.
            release: The edition's release; None: as the edition says, which must exist.

        Raises:
            UsageError: There is no such edition, or a step needs a slot that it does not have.
            ArenaError: As the stages say.
        """
        editions = Editions(self.store)
        known: Slots = {}
        if release is None or self.edition in editions.names():
            edition = editions.load(self.edition)
            release, known = release or edition.release, dict(edition.slots)
        frozen = self.edition in editions.names() and editions.load(self.edition).published is not None
        planned = {step.slot: step.planned() for step in steps}
        Recipes(self.store).plan(self.edition, release, planned, published=frozen)
        budget = BudgetSettings(run=self.edition, cap=Cap(usd=self.control.max_usd))
        built: Slots = {}
        for step in steps:
            if self.control.until and stage_position(step.stage.name) > stage_position(self.control.until):
                continue
            request = Request(step.stage, step.settings, self._inputs(step, known | built))
            label = StageLabel(step.slot, step.stage.name in self.control.force, budget)
            built[step.slot] = self.execute(request, label)
            editions.record(self.edition, release, {step.slot: built[step.slot]})
        return built

    def _inputs(self, step: Step, slots: Slots) -> dict[str, Ref | ReleaseDataset]:
        missing = [slot for slot in step.inputs.values() if isinstance(slot, str) and slot not in slots]
        if missing:
            raise UsageError(
                f"edition {self.edition} has no {', '.join(missing)}, which {step.slot} needs; {remedy(missing[0])}"
            )
        return {name: slots[source] if isinstance(source, str) else source for name, source in step.inputs.items()}

    def _engine(self, retriever: RetrieverName, settings: RunSettings) -> Engine:
        """The engine, with the encoder and the kind of approximate index that the edition has for the field."""
        if retriever == "bm25":
            return Engine(retriever, settings.field)
        encoder = self._parameters("embeddings", settings.field)["encoder"]
        kind = self._parameters("ann", settings.field)["kind"] if settings.approximate else None
        return Engine(retriever, settings.field, EncoderSettings.model_validate(encoder), kind)

    def _parameters(self, stage: str, name: str) -> dict[str, Any]:
        """With which settings the edition's slot `<stage>/<name>` was made."""
        slot = f"{stage}/{name}"
        slots = Editions(self.store).load(self.edition).slots
        if slot not in slots:
            raise UsageError(f"edition {self.edition} has no {slot}; {remedy(slot)}")
        return self.store.open(slots[slot]).manifest.parameters


def fingerprints_in(root: Path) -> Path:
    """The file of a store that remembers digests of release files."""
    return root / "fingerprints.json"


def open_files(machine: Machine, release: str | None) -> dict[DatasetName, ReleaseDataset]:
    """The files of a release in the machine's mirror (None: of the newest that was not refused), fingerprinted.

    Raises:
        ReleaseError: There is no such release, or it is not complete.
    """
    refused = list_refused(machine.releases)
    known = [found for found in list_releases(machine.releases) if found not in refused]
    if release is None and not known:
        raise ReleaseError(f"no release in {machine.releases}; choose another --releases, or see README: real releases")
    return open_release(machine.releases, release or known[-1], fingerprints_in(machine.root))


def open_update(machine: Machine, edition: str, release: str | None) -> Update:
    """The records of an edition, and the diffs that lead from its release to another, fingerprinted.

    There are no diffs of figures: those in the folder of the later release are used, or else those of the earlier one.

    Args:
        machine: Where store and mirror are.
        edition: The earlier edition.
        release: The later release; None: the newest that diffs lead to and that was not refused.

    Raises:
        UsageError: There is no such edition.
        ReleaseError: No diffs in the machine's mirror lead there, or one is not complete.
    """
    store = Store(machine.root)
    earlier = Editions(store).load(edition)
    release = release or _newest_end(machine.releases, earlier.release)
    refs = {slot: earlier.slots[slot] for slot in RECORD_STAGES if slot in earlier.slots}
    datasets: dict[str, DatasetName] = {slot: _made_of(store, ref) for slot, ref in refs.items()}
    fingerprints = fingerprints_in(machine.root)
    diffs = open_diffs(machine.releases, earlier.release, release, set(datasets.values()), fingerprints)
    folders = (machine.releases / name for name in (release, earlier.release))
    pictured = next((folder / "figures" for folder in folders if find_files(folder, "figures")), None)
    return Update(
        ReleaseId(release),
        {slot: (ref, [diff.datasets[datasets[slot]] for diff in diffs]) for slot, ref in refs.items()},
        open_figures(pictured, release, fingerprints) if pictured else None,
    )


def _newest_end(releases: Path, start: str) -> str:
    refused = list_refused(releases)
    known = [end for end in list_ends(releases) if end > start and end not in refused]
    if not known:
        raise ReleaseError(f"no diffs in {releases} lead on from release {start}; run: arena release diff {start}")
    return known[-1]


def record_counts(store: Store, edition: EditionManifest) -> dict[DatasetName, int]:
    """Records of each dataset of the release that an edition is made from."""
    refs = [edition.slots[slot] for slot in RECORD_STAGES if slot in edition.slots]
    return {_made_of(store, ref): store.open(ref).manifest.counts.kept for ref in refs}


def _made_of(store: Store, ref: Ref) -> DatasetName:
    """Which dataset of a release a dataset of records was read from."""
    entries = store.open(ref).manifest.inputs.values()
    return next(cast(DatasetName, entry.dataset) for entry in entries if isinstance(entry, ReleaseEntry))


def choose_edition(store: Store, name: str | None) -> str:
    """The edition of that name, or the only one there is.

    Raises:
        UsageError: There is none of that name, or more than one to choose from.
    """
    editions = Editions(store)
    names = editions.names()
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UsageError(
            f"which edition? add --edition with one of: {', '.join(names)}"
            if names
            else f"no edition in {store.root} yet; run: arena build"
        )
    return editions.load(name).name


def remedy(slot: str) -> str:
    """The command that makes a slot."""
    stage, _, name = slot.partition("/")
    if stage == "ann":
        return f"run: arena index --field {name} --ann hnsw"
    if stage in ("bm25", "embeddings"):
        return f"run: arena index --field {name}"
    if stage == "mindmaps":
        return "run: arena run organization --maps FILE"
    return "run: arena run discovery" if stage in ("run", "scores") else "run: arena build"
