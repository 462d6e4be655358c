"""Estimates how many language model calls a plan makes and what they cost, before it runs."""

from collections.abc import Sequence
from typing import NamedTuple

from flows.pipeline.models import model_access
from flows.pipeline.plans.steps import Step
from schemas.errors import UsageError
from schemas.llm import Tokens
from schemas.manifest import Ref
from tasks.llm.prices import price_of
from tasks.organization.builder import find_builder
from tasks.organization.organize import OrganizeSettings
from tasks.ranking.baseline import find_baseline
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.ranking.runs import SystemSettings
from tasks.store.editions import Editions
from tasks.store.store import Store


class StepEstimate(NamedTuple):
    """Calls, tokens and cost of one step. Cached replies are not subtracted."""

    slot: str
    model: str
    topics: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float


def estimate_steps(store: Store, edition: str, steps: Sequence[Step]) -> list[StepEstimate]:
    """Estimates the model calls of the runs and trees of a plan, from what each usually needs per topic.

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
    tokens = Tokens(len(topics) * demand.read, len(topics) * demand.written)
    usd = price_of(access.settings, model.model).nano_usd(tokens) / 1e9
    return StepEstimate(step.slot, model.model, len(topics), len(topics) * demand.calls, *tokens, usd)
