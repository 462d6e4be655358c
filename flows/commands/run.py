"""Commands `arena run`: run systems on an edition's topics and score them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from flows.commands.options import FLAT, open_pipeline
from flows.commands.terminal import show_json, show_rows, show_scores
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.plans.steps import Step
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline
from schemas.identifiers import EditionName
from schemas.settings import OrganizationSettings, RunSettings
from tasks.metrics.ranking import RankingTask
from tasks.ranking.views import VIEWS


def discovery(
    *,
    edition: EditionName | None = None,
    settings: Annotated[RunSettings, FLAT] = RunSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Run systems and show how many of the surveys' references they find (recall, precision).

    Args:
        edition: Name of the edition; may be left out when there is only one.
        dry_run: Run nothing; estimate the language model calls and their cost.
        json: Print the scores as JSON.
    """
    opened = open_pipeline(machine or Machine(), edition, control)
    _run_systems("discovery", opened, settings, dry_run=dry_run, json=json)


def selection(
    *,
    edition: EditionName | None = None,
    settings: Annotated[RunSettings, FLAT] = RunSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Run systems and show how well they rank the references (nDCG, MRR; graded and influential labels).

    Args:
        edition: Name of the edition; may be left out when there is only one.
        dry_run: Run nothing; estimate the language model calls and their cost.
        json: Print the scores as JSON.
    """
    opened = open_pipeline(machine or Machine(), edition, control)
    _run_systems("selection", opened, settings, dry_run=dry_run, json=json)


def organization(
    *,
    edition: EditionName | None = None,
    maps: Path | None = None,
    settings: Annotated[OrganizationSettings, FLAT] = OrganizationSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Build mind-maps of an edition's topics, and score them against the mind-maps of the surveys' authors.

    Args:
        edition: Name of the edition; may be left out when there is only one.
        maps: JSON lines of transcribed mind-maps; left out: the edition's own.
        dry_run: Run nothing; estimate the language model calls and their cost.
        json: Print the scores as JSON.
    """
    with open_pipeline(machine or Machine(), edition, control) as pipeline:
        if dry_run:
            _show_estimate(pipeline, pipeline.plan_trees(settings, maps), json)
            return
        built = pipeline.organize(settings, maps)
    found = tables.tree_rows(pipeline.store, built)
    if json:
        show_json({"edition": pipeline.edition, "scores": found, "datasets": tables.slot_refs(built)})
    else:
        show_rows(
            tables.people_tree_rows(found),
            f"organization, edition {pipeline.edition}: mean over topics with a mind-map",
        )


def _run_systems(
    task: RankingTask, opened: AbstractContextManager[Pipeline], settings: RunSettings, *, dry_run: bool, json: bool
) -> None:
    with opened as pipeline:
        if dry_run:
            _show_estimate(pipeline, pipeline.plan_runs(settings), json)
            return
        built = pipeline.run_systems(settings)
    found = {label: tables.score_rows(pipeline.store, built, task, label) for label in VIEWS[task].labels}
    if json:
        show_json({"edition": pipeline.edition, "task": task, "scores": found, "datasets": tables.slot_refs(built)})
        return
    for label, rows in found.items():
        show_scores(rows, task, f"edition {pipeline.edition}, {label} labels")


def _show_estimate(pipeline: Pipeline, steps: Sequence[Step], json: bool) -> None:
    """Prints estimates of the language model calls of each step, from what systems usually need."""
    from flows.pipeline.estimates import estimate_steps

    found = estimate_steps(pipeline.store, pipeline.edition, steps)
    rows = [step._asdict() for step in found]
    total = sum(step.usd for step in found)
    if json:
        show_json({"edition": pipeline.edition, "estimate": rows, "usd": total})
    else:
        show_rows(rows, f"about {sum(step.calls for step in found):,} calls, {total:,.2f} USD; cached calls are free")
