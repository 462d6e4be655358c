"""Rebuilds one stage of an edition, and then everything that depends on bytes that changed."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal, NamedTuple

from pydantic import ValidationError

from flows.pipeline.stages import find_stage
from flows.pipeline.walk import Pipeline, Slots, StageLabel
from schemas.errors import StoreError, UsageError
from schemas.manifest import EditionManifest, Ref
from schemas.messages import describe
from schemas.release import ReleaseDataset
from schemas.settings import Settings
from tasks.store.editions import Editions
from tasks.store.recipes import PlannedStage, Recipes
from tasks.store.stage import AnyStage
from tasks.store.stages import declared_stages
from tasks.store.store import Request, Store

Mode = Literal["if_failed", "force"]
Repair = Literal["damaged"]

AskedAgain = Literal["failed", "refused", "over_budget", "empty"]
"""Outcomes of topics, queries and questions that can be asked again; `failed` includes those with a fallback."""

FindStage = Callable[[str], AnyStage]


class Chosen(NamedTuple):
    """What is to be rebuilt: slots of a recipe, in any case or if missing, for some outcomes alone."""

    planned: dict[str, PlannedStage]
    slots: set[str]
    forced: bool
    again: frozenset[str]


def choose(
    pipeline: Pipeline,
    stage: str | None,
    mode: Mode | Repair = "if_failed",
    *,
    outcomes: Collection[AskedAgain] = (),
) -> Chosen:
    """Returns what to rebuild of an edition; no slots when no subject ended with one of `outcomes`.

    A stage that declares its inputs is added with default settings to an edition that does not have it yet.

    Args:
        pipeline: The pipeline of the edition.
        stage: A stage, or one slot: `run`, `run/title.bm25.abstract`. With `outcomes` or the mode `damaged`, None means
            every stage.
        mode: `if_failed` builds only slots that are missing or damaged, `force` builds the stage's slots in any case,
            `damaged` first reads every byte, and builds what is damaged or was made of something damaged.
        outcomes: Asks a model again only about the topics, queries or questions that ended so, and keeps the others.

    Raises:
        UsageError: The edition has no such slot, is published and would change, or there is neither stage nor outcome.
    """
    edition = Editions(pipeline.store).load(pipeline.edition)
    recipe = Recipes(pipeline.store).load(edition)
    planned = {slot: _as_on_disk(entry, pipeline.store) for slot, entry in recipe.items()}
    from tasks.llm.earlier_answers import all_outcomes

    again = all_outcomes(outcomes)
    if stage is not None and not any(stage in (slot, entry.stage) for slot, entry in planned.items()):
        planned |= _plan_added(stage)
    chosen = choose_slots(edition, planned, stage) if stage is not None else set(planned)
    if again:
        chosen = {slot for slot in chosen if slot in edition.slots and _has(pipeline.store, edition.slots[slot], again)}
    elif mode == "damaged":
        chosen &= damaged_slots(pipeline.store, edition)
    elif stage is None:
        raise UsageError("which stage? name one as arena status shows them, or add --outcome failed or --damaged")
    forced = mode == "force" or bool(again)
    if chosen and edition.published and forced:
        raise UsageError(
            f"edition {edition.name} was published on {edition.published:%Y-%m-%d} and cannot change: "
            "build a new edition; what is missing or damaged is repaired without --force and --outcome"
        )
    return Chosen(planned, chosen, forced, again)


def rerun(pipeline: Pipeline, chosen: Chosen, find: FindStage = find_stage) -> Slots:
    """Rebuilds slots with the settings and inputs that the edition records.

    Their inputs are used as they are, and built only if they are missing. Dependent slots follow: the store finds them
    if no byte has changed, and builds them otherwise.

    Args:
        pipeline: The pipeline of the edition.
        chosen: As `choose` returns it.
        find: Returns a stage by its name.

    Returns:
        Every visited slot, in order.

    Raises:
        UsageError: An input is missing, or recorded settings are no longer valid.
        ArenaError: A stage failed.
    """
    planned, slots, forced, again = chosen
    if not slots:
        return {}
    editions = Editions(pipeline.store)
    edition = editions.load(pipeline.edition)
    Recipes(pipeline.store).plan(edition.name, edition.release, planned, published=edition.published is not None)
    budget = pipeline.control.budget(edition.name)
    current: Slots = dict(edition.slots)
    built: Slots = {}
    order = walk_order(planned, slots)
    for index, slot in enumerate(order):
        request = make_request(slot, planned[slot], current, find)
        ref = current.get(slot)
        if slot in slots or ref is None or not only_version_differs(pipeline.store, ref, request):
            label = StageLabel(slot, forced and slot in slots, budget, again, (index, len(order)))
            ref = pipeline.execute(request, label)
            editions.record(edition.name, edition.release, {slot: ref})
        current[slot] = built[slot] = ref
    return built


def _has(store: Store, ref: Ref, outcomes: frozenset[str]) -> bool:
    """Returns whether a dataset that asked a model has subjects with one of these outcomes."""
    dataset = store.find(ref.stage, ref.key)
    from tasks.llm.usage import CALLS

    if dataset is None or not dataset.files(CALLS):
        return False
    counts = dataset.manifest.counts
    ended = {outcome for outcome, number in counts.dropped.items() if number} | ({"failed"} if counts.failed else set())
    return bool(ended & outcomes)


def _plan_added(stage: str) -> dict[str, PlannedStage]:
    """Plans a stage that declares its inputs, in a slot of its own name; nothing for any other name."""
    if stage not in declared_stages() or not (found := find_stage(stage)).inputs:
        return {}
    parameters = found.settings().model_dump(mode="json")
    return {stage: PlannedStage(stage=found.name, parameters=parameters, inputs=dict(found.inputs))}


def _as_on_disk(entry: PlannedStage, store: Store) -> PlannedStage:
    """Returns the entry with its current files, since a broken one may have been repaired; missing ones stay listed."""
    return entry.model_copy(update={"inputs": {name: _reopen(item, store) for name, item in entry.inputs.items()}})


def _reopen(item: str | Ref | ReleaseDataset, store: Store) -> str | Ref | ReleaseDataset:
    if not isinstance(item, ReleaseDataset):
        return item
    paths = [item.directory / file.name for file in item.files]
    if not all(path.is_file() for path in paths):
        return item
    from flows.pipeline.release_files import fingerprints_in
    from tasks.release.mirror import describe_dataset, hash_files

    hashed = hash_files(paths, fingerprints_in(store.root))
    return describe_dataset(item.release, item.dataset, item.directory, paths, hashed)


def choose_slots(edition: EditionManifest, planned: Mapping[str, PlannedStage], stage: str) -> set[str]:
    """Returns the slots of a stage, or the one slot of that name.

    Raises:
        UsageError: There is no such slot; the message lists the slots.
    """
    chosen = {slot for slot, entry in planned.items() if stage in (slot, entry.stage)}
    if not chosen:
        known = sorted({entry.stage for entry in planned.values()})
        raise UsageError(f"edition {edition.name} has no stage or slot {stage!r}; it has: {', '.join(known) or 'none'}")
    return chosen


def damaged_slots(store: Store, edition: EditionManifest) -> set[str]:
    """Returns the slots whose dataset is missing, damaged, or was made before a damaged input was replaced.

    Every byte is read. A dataset in which a wrong byte is found is not used from then on.
    """
    damaged: set[str] = set()
    for slot, ref in edition.slots.items():
        dataset = store.find(ref.stage, ref.key)
        if dataset is None or dataset.problems(check_hashes=True) or store.mended_input(dataset):
            damaged.add(slot)
    return damaged


def walk_order(planned: Mapping[str, PlannedStage], chosen: Collection[str]) -> list[str]:
    """Returns the chosen slots, everything made from them, and all inputs of these, in the order of data."""
    walked = set(chosen)
    for slot, entry in planned.items():
        if entry.sources() & walked:
            walked.add(slot)
    for slot, entry in reversed(list(planned.items())):
        if slot in walked:
            walked |= entry.sources()
    return [slot for slot in planned if slot in walked]


def check_sources(slot: str, entry: PlannedStage, slots: Mapping[str, Ref]) -> None:
    """Raises a UsageError when an edition lacks a slot that another one is made from."""
    if missing := sorted(entry.sources() - slots.keys()):
        raise UsageError(f"{slot} needs {', '.join(missing)}, which the edition does not have; run that stage first")


def make_request(slot: str, entry: PlannedStage, slots: Mapping[str, Ref], find: FindStage = find_stage) -> Request:
    """Returns the request for a slot.

    Raises:
        UsageError: An input is missing, or the recorded settings are no longer valid.
    """
    check_sources(slot, entry, slots)
    stage = find(entry.stage)
    inputs = {name: slots[source] if isinstance(source, str) else source for name, source in entry.inputs.items()}
    return Request(stage, read_settings(slot, stage, entry), inputs)


def read_settings(slot: str, stage: AnyStage, entry: PlannedStage) -> Settings:
    """Returns the recorded settings; settings added since have their defaults."""
    try:
        return stage.settings.model_validate(entry.parameters)
    except ValidationError as error:
        raise UsageError(
            f"{slot}: this version does not understand the recorded settings ({describe(error)}); "
            "build the edition again"
        ) from error


def only_version_differs(store: Store, ref: Ref, request: Request) -> bool:
    """Returns whether a slot's dataset is whole and differs from the request only by the versions it was built with."""
    dataset = store.find_whole(ref.stage, ref.key)
    if dataset is None or dataset.manifest.digest != ref.digest or ref.key == request.key:
        return False
    manifest = dataset.manifest
    try:
        settings = manifest.settings(request.stage)
    except StoreError:
        return False
    digests = {name: item.digest for name, item in request.inputs.items()}
    return settings == request.settings and digests == {name: entry.digest for name, entry in manifest.inputs.items()}
