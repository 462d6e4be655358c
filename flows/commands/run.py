"""Commands `arena run`: run systems on an edition's topics and score them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, NamedTuple

from flows.commands.capacity import show_plan
from flows.commands.estimate import show_usual_demand
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
    plan: bool = False,
    json: bool = False,
) -> None:
    """Run systems and show how many of the surveys' references they find (recall, precision).

    Args:
        edition: Name of the edition; may be left out when there is only one.
        dry_run: Run nothing; estimate the language model calls and their cost.
        plan: Run nothing; say rows, disk, memory and hours by stage, and whether this machine suffices.
        json: Print the scores as JSON.
    """
    machine = machine or Machine()
    _run_systems("discovery", open_pipeline(machine, edition, control), settings, _Shown(machine, dry_run, plan, json))


def selection(
    *,
    edition: EditionName | None = None,
    settings: Annotated[RunSettings, FLAT] = RunSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    plan: bool = False,
    json: bool = False,
) -> None:
    """Run systems and show how well they rank the references (nDCG, MRR; graded and influential labels).

    Args:
        edition: Name of the edition; may be left out when there is only one.
        dry_run: Run nothing; estimate the language model calls and their cost.
        plan: Run nothing; say rows, disk, memory and hours by stage, and whether this machine suffices.
        json: Print the scores as JSON.
    """
    machine = machine or Machine()
    _run_systems("selection", open_pipeline(machine, edition, control), settings, _Shown(machine, dry_run, plan, json))


def organization(
    *,
    edition: EditionName | None = None,
    maps: Path | None = None,
    settings: Annotated[OrganizationSettings, FLAT] = OrganizationSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    plan: bool = False,
    json: bool = False,
) -> None:
    """Build mind-maps of an edition's topics, and score them against the mind-maps of the surveys' authors.

    Args:
        edition: Name of the edition; may be left out when there is only one.
        maps: JSON lines of transcribed mind-maps; left out: the edition's own.
        dry_run: Run nothing; estimate the language model calls and their cost.
        plan: Run nothing; say rows, disk, memory and hours by stage, and whether this machine suffices.
        json: Print the scores as JSON.
    """
    shown = _Shown(machine or Machine(), dry_run, plan, json)
    with open_pipeline(shown.machine, edition, control) as pipeline:
        if dry_run or plan:
            shown.estimate(pipeline, pipeline.plan_trees(settings, maps))
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


class _Shown(NamedTuple):
    """What a command shows: scores, or an estimate of model calls (`dry_run`) or of what the machine needs (`plan`)."""

    machine: Machine
    dry_run: bool
    plan: bool
    json: bool

    def estimate(self, pipeline: Pipeline, steps: Sequence[Step]) -> None:
        """Prints the estimate."""
        if self.dry_run:
            show_usual_demand(pipeline, steps, self.json)
        else:
            show_plan(pipeline, steps, self.machine, self.json)


def _run_systems(
    task: RankingTask, opened: AbstractContextManager[Pipeline], settings: RunSettings, shown: _Shown
) -> None:
    with opened as pipeline:
        if shown.dry_run or shown.plan:
            shown.estimate(pipeline, pipeline.plan_runs(settings))
            return
        built = pipeline.run_systems(settings)
    found = {label: tables.score_rows(pipeline.store, built, task, label) for label in VIEWS[task].labels}
    if shown.json:
        show_json({"edition": pipeline.edition, "task": task, "scores": found, "datasets": tables.slot_refs(built)})
        return
    for label, rows in found.items():
        show_scores(rows, task, f"edition {pipeline.edition}, {label} labels")
