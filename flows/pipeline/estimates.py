"""Estimates how many language model calls a plan makes and what they cost, before it runs."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl

from flows.pipeline.machine import Machine
from flows.pipeline.models import model_access
from flows.pipeline.plans.steps import Step
from flows.pipeline.rerun import Chosen, read_settings, walk_order
from flows.pipeline.stages import find_stage
from flows.pipeline.walk import Pipeline
from schemas.errors import UsageError
from schemas.llm import Demand, Estimate, ModelName, Rehearsed, Tokens
from schemas.manifest import Ref
from tasks.llm.prices import price_of
from tasks.llm.usage import CALLS
from tasks.organization.builder import find_builder
from tasks.organization.organize import OrganizeSettings
from tasks.paperqa.baseline import find_paperqa_baseline
from tasks.paperqa.runs import PaperQaSettings
from tasks.ranking.baseline import find_baseline
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.ranking.runs import SystemSettings
from tasks.store.editions import Editions
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace


class StepEstimate(NamedTuple):
    """Calls, tokens and cost of one step; none for a step whose dataset exists.

    `subjects` are the topics, papers or questions that it reads, `cached` are calls whose replies are stored.
    `measured`: they are what the latest run of the same system used for a subject, in place of the usual values.
    """

    slot: str
    model: str
    subjects: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    measured: bool = False
    cached: int = 0


class Rehearsal(NamedTuple):
    """What the steps of a plan would ask, and the slots for which that cannot be said before the others are built."""

    found: list[StepEstimate]
    later: list[str]


def rehearse_steps(pipeline: Pipeline, steps: Sequence[Step], machine: Machine, release: str | None) -> Rehearsal:
    """Builds the steps that ask no model, and estimates those that do by running them with nothing sent.

    So prompts have their real lengths, and calls whose replies are stored cost nothing. A system that asks several
    times is not followed beyond its first new call: what comes after it is what such systems usually need.

    Args:
        pipeline: The edition.
        steps: In order.
        machine: Where the stages run.
        release: As for `Pipeline.walk`.

    Raises:
        UsageError: No endpoint is set up.
        ArenaError: A stage failed.
    """
    told, later = list[StepEstimate](), list[str]()
    for step in steps:
        if set(later) & set(map(str, step.inputs.values())):
            later.append(step.slot)
            continue
        model = _model_of(step)
        editions = Editions(pipeline.store)
        slots = editions.load(pipeline.edition).slots if pipeline.edition in editions.names() else {}
        if model is None or _exists(pipeline.store, slots, step):
            pipeline.walk([step], release=release)
            if model:
                told.append(StepEstimate(step.slot, model.model))
            continue
        told.append(_rehearse(pipeline, step, model, slots, machine))
        later.append(step.slot)
    return Rehearsal(told, [slot for slot in later if slot not in {found.slot for found in told}])


def rehearse_rerun(pipeline: Pipeline, chosen: Chosen, machine: Machine) -> Rehearsal:
    """Says what rebuilding slots would ask of models, without building anything; otherwise as `rehearse_steps`.

    Raises:
        UsageError: An input is missing, or no endpoint is set up.
        ArenaError: A stage failed.
    """
    slots = Editions(pipeline.store).load(pipeline.edition).slots
    told, later, rebuilt = list[StepEstimate](), list[str](), set[str]()
    for slot in walk_order(chosen.planned, chosen.slots):
        entry = chosen.planned[slot]
        if entry.sources() & rebuilt:
            later.append(slot)
            rebuilt.add(slot)
        elif slot in chosen.slots:
            stage = find_stage(entry.stage)
            step = Step(slot, stage, read_settings(slot, stage, entry), entry.inputs)
            model = _model_of(step)
            if not chosen.forced and _exists(pipeline.store, slots, step):
                told += [StepEstimate(slot, model.model)] if model else []
                continue
            rebuilt.add(slot)
            if model:
                told.append(_rehearse(pipeline, step, model, slots, machine, chosen.forced, chosen.again))
    return Rehearsal(told, later)


def _model_of(step: Step) -> ModelName | None:
    return next((value for _, value in step.settings if isinstance(value, ModelName)), None)


def _rehearse(
    pipeline: Pipeline,
    step: Step,
    model: ModelName,
    slots: dict[str, Ref],
    machine: Machine,
    forced: bool = False,
    again: frozenset[str] = frozenset(),
) -> StepEstimate:
    """Runs a step in a folder that is thrown away, and sums up the calls that it would make."""
    store, noted = pipeline.store, dict[str, Rehearsed]()
    request = Request(step.stage, step.settings, pipeline.inputs_of(step, slots))
    inputs = {name: store.open(item) if isinstance(item, Ref) else item for name, item in request.inputs.items()}
    access = model_access(store.root, pipeline.control.budget(pipeline.edition), noted)
    with TemporaryDirectory(dir=store.root / ".staging") as folder:
        work = Workspace(
            step.stage.name,
            Path(folder, request.key),
            step.settings,
            inputs,
            machine,
            store.published(step.stage.name),
            llm=access,
            version=step.stage.version,
            takes_over=not forced,
            again=again,
        )
        step.stage(work)
        subjects = work.counts().read
    sums = Estimate.of(noted.values())
    usual = _used_before(store, step)
    demand = usual or (
        find_paperqa_baseline(step.settings.baseline).asks if isinstance(step.settings, PaperQaSettings) else None
    )
    if access is None or demand is None or demand.calls <= 1:
        return StepEstimate(step.slot, model.model, subjects, sums.calls, *sums.tokens, sums.usd, cached=sums.cached)
    begun = sums.calls - sums.cached  # each of these subjects was followed up to its first new call
    tokens = Tokens(round(begun * demand.read), round(begun * demand.written))
    usd = price_of(access.settings, model.model).nano_usd(tokens) / 1e9
    calls = round(begun * demand.calls) + sums.cached
    return StepEstimate(step.slot, model.model, subjects, calls, *tokens, usd, usual is not None, sums.cached)


def estimate_steps(store: Store, edition: str, steps: Sequence[Step]) -> list[StepEstimate]:
    """Estimates the model calls of the runs and trees of a plan, from what each needed or usually needs per topic.

    Raises:
        UsageError: The edition has no topics, or no endpoint is set up.
        BadInput: The price of a model is not known.
    """
    slots = Editions(store).load(edition).slots
    if "topics" not in slots:
        raise UsageError(f"edition {edition} has no topics; run: arena build")
    return [found for step in steps if (found := _estimate(store, slots, step)) is not None]


def _estimate(store: Store, slots: dict[str, Ref], step: Step) -> StepEstimate | None:
    settings = step.settings
    if not isinstance(settings, SystemSettings | OrganizeSettings):
        return None
    asker = find_baseline(settings.baseline) if isinstance(settings, SystemSettings) else find_builder(settings.builder)
    model, demand = settings.model, asker.asks
    if model is None or demand is None:
        return None
    maps = store.open(slots["mindmaps"]) if "mindmaps" in step.inputs and "mindmaps" in slots else None
    topics = evaluated_topics(store.open(slots["topics"]), settings, maps)
    access = model_access(store.root)
    if access is None:
        raise UsageError("no language model is set up; set ARENA_LLM_BASE_URL and ARENA_LLM_API_KEY")
    used = _used_before(store, step)
    demand = used or demand
    asked = 0 if _exists(store, slots, step) else len(topics)
    tokens = Tokens(round(asked * demand.read), round(asked * demand.written))
    usd = price_of(access.settings, model.model).nano_usd(tokens) / 1e9
    calls = round(asked * demand.calls)
    return StepEstimate(step.slot, model.model, len(topics), calls, *tokens, usd, used is not None)


def _exists(store: Store, slots: dict[str, Ref], step: Step) -> bool:
    """Returns whether the step's dataset exists, so that running it asks nothing."""
    inputs = {name: slots.get(source) if isinstance(source, str) else source for name, source in step.inputs.items()}
    known = {name: source for name, source in inputs.items() if source is not None}
    if len(known) < len(inputs):
        return False
    return store.find_whole(step.stage.name, Request(step.stage, step.settings, known).key) is not None


def _used_before(store: Store, step: Step) -> Demand | None:
    """Returns what the latest whole run of the same system used for a topic on average; None: there is no such run."""
    parameters = step.settings.model_dump(include={"baseline", "builder", "protocol", "scope", "limits"})
    for dataset in store.published(step.stage.name):
        manifest = dataset.manifest
        if not parameters.items() <= manifest.parameters.items() or not manifest.counts.read:
            continue
        if not dataset.damage and (files := dataset.files(CALLS)):
            calls = pl.read_parquet(files, columns=["keys", "input_tokens", "output_tokens"])
            totals = (calls["keys"].list.len().sum(), calls["input_tokens"].sum(), calls["output_tokens"].sum())
            return Demand(*(float(total) / manifest.counts.read for total in totals))
    return None
