"""Estimates how many language model calls a plan makes and what they cost, before it runs."""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from flows.pipeline.models import model_access
from flows.pipeline.plans.steps import Step
from schemas.errors import UsageError
from schemas.llm import Demand, Tokens
from schemas.manifest import Ref
from tasks.llm.prices import price_of
from tasks.llm.usage import CALLS
from tasks.organization.builder import find_builder
from tasks.organization.organize import OrganizeSettings
from tasks.ranking.baseline import find_baseline
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.ranking.runs import SystemSettings
from tasks.store.editions import Editions
from tasks.store.store import Request, Store


class StepEstimate(NamedTuple):
    """Calls, tokens and cost of one step; none for a step whose dataset exists.

    `measured`: they are what the latest run of the same system used for a topic, in place of the usual values.
    """

    slot: str
    model: str
    topics: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    measured: bool = False


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
    return store.find(step.stage.name, Request(step.stage, step.settings, known).key) is not None


def _used_before(store: Store, step: Step) -> Demand | None:
    """Returns what the latest run of the same system used for a topic on average; None: the store has no such run."""
    name = "baseline" if isinstance(step.settings, SystemSettings) else "builder"
    for dataset in store.published(step.stage.name):
        manifest = dataset.manifest
        if manifest.parameters.get(name) != getattr(step.settings, name) or not manifest.counts.read:
            continue
        if files := dataset.files(CALLS):
            calls = pl.read_parquet(files, columns=["keys", "input_tokens", "output_tokens"])
            totals = (calls["keys"].list.len().sum(), calls["input_tokens"].sum(), calls["output_tokens"].sum())
            return Demand(*(float(total) / manifest.counts.read for total in totals))
    return None
