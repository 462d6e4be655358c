"""The steps that make datasets of a run from outside and score it as our own runs are scored."""

from typing import NamedTuple

from flows.pipeline.plans.steps import Step
from schemas.release import ReleaseDataset
from schemas.submission import Entry, Task
from tasks.store.stage import AnyStage
from tasks.submissions.stages import SubmissionSettings, submitted_answers, submitted_run, submitted_trees
from tasks.submissions.topics import SLOTS


class Place(NamedTuple):
    """Where an edition records a run of a task: the first words of its slot and of the slot of its scores."""

    run: str
    scores: str
    stage: AnyStage


PLACES: dict[Task, Place] = {
    "discovery": Place("run/", "scores/", submitted_run),
    "selection": Place("run/", "scores/", submitted_run),
    "organization": Place("trees/", "tree_scores/", submitted_trees),
    "paperqa": Place("airqa/run/", "airqa/scores/", submitted_answers),
}


def plan_entry(entry: Entry, deposited: ReleaseDataset) -> Step:
    """Returns the step that makes datasets of a run that lies in the store."""
    place = PLACES[entry.task]
    settings = SubmissionSettings(system=entry.system, task=entry.task, tag=entry.system.run, **dict(entry.subset))
    inputs = {slot.rpartition("/")[2]: slot for slot in SLOTS[entry.task]}
    return Step(f"{place.run}{entry.system.run}", place.stage, settings, {"submission": deposited, **inputs})
