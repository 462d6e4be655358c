"""Runs the search benchmark: asks the engines, judges their results and scores the engines."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from flows.pipeline.models import choose_model, model_access
from flows.pipeline.plans.search import SearchSlots, judge_settings, needs_edition, plan_engines, plan_judging
from flows.pipeline.services import web_access
from flows.pipeline.walk import Pipeline, Slots, choose_edition
from schemas.errors import UsageError
from schemas.llm import Estimate
from schemas.search import JudgeSettings, SearchSettings
from schemas.settings import EncoderSettings
from tasks.index.embeddings import embeddings
from tasks.reports.report import ReportSettings
from tasks.search.judgments import estimate_judging
from tasks.search.queries import open_label_file, open_query_files
from tasks.store.editions import Editions
from tasks.store.store import Store

NO_RELEASE = "none"
"""Release of an edition that holds only results of engines that search no edition."""


class Searched(NamedTuple):
    """The engines' results, their slots, and the judges to ask."""

    slots: SearchSlots
    built: Slots
    judges: list[JudgeSettings]


def search_edition(store: Store, edition: str | None, settings: SearchSettings) -> str:
    """Returns the edition that records the results; a new name is fine when no engine searches an edition.

    Raises:
        UsageError: No edition has that name, or there are several to choose from.
    """
    if edition and not needs_edition(settings):
        return edition
    return choose_edition(store, edition)


def ask_engines(pipeline: Pipeline, settings: SearchSettings, queries: Sequence[Path]) -> Searched:
    """Sends every query to every engine. Nothing is judged yet.

    Raises:
        UsageError: An engine, a judge or a model does not exist, or two judges have the same name.
        ArenaError: A stage failed.
    """
    store, edition = pipeline.store, pipeline.edition
    new = edition not in Editions(store).names()
    files = open_query_files(queries)
    encoder, stemming = (
        (None, "none") if new else (_encoder(pipeline, settings), pipeline.read_stemming(settings.field))
    )
    steps = plan_engines(settings, files, encoder, web_access(), stemming)
    tags = tuple(step.settings.model_dump()["tag"] for step in steps[1:])
    judges = judge_settings(settings, tags, lambda model: choose_model(store.root, model))
    if len({who.tag for who in judges}) < len(judges):
        raise UsageError(f"two judges are named {judges[0].tag}; name each judge and model once")
    return Searched(SearchSlots.of(files), pipeline.walk(steps, release=NO_RELEASE if new else None), judges)


def judge_results(
    pipeline: Pipeline, settings: SearchSettings, searched: Searched, labels: Path | None = None
) -> Slots:
    """Judges the results, scores the engines and writes the report. Returns all slots, including those of the results.

    Raises:
        ArenaError: A stage failed.
    """
    release = Editions(pipeline.store).load(pipeline.edition).release
    page = ReportSettings(title="Search engines on real queries", release=release, edition=pipeline.edition)
    sheet = open_label_file(labels) if labels else None
    steps = plan_judging(settings, searched.slots, searched.judges, sheet, page)
    return searched.built | pipeline.walk(steps)


def estimate(pipeline: Pipeline, searched: Searched) -> dict[str, Estimate]:
    """Estimates what each judge would cost, without asking one.

    Raises:
        UsageError: No endpoint is set up.
        BadInput: The price of a model is not known.
    """
    store, slots, built = pipeline.store, searched.slots, searched.built
    results = {tag: store.open(built[slots.results(tag)]) for tag in searched.judges[0].engines}
    access = model_access(store.root, pipeline.control.budget(pipeline.edition))
    queries = store.open(built[slots.queries])
    return {who.tag: estimate_judging(who, queries, results, access) for who in searched.judges}


def _encoder(pipeline: Pipeline, settings: SearchSettings) -> EncoderSettings | None:
    """Returns the encoder of the field's embeddings, or None if the edition has none."""
    ref = Editions(pipeline.store).load(pipeline.edition).slots.get(f"embeddings/{settings.field}")
    if ref is None:
        return None
    return pipeline.store.open(ref).manifest.settings(embeddings).encoder
