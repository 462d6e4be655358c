"""Takes a run from outside into an edition: checks it, keeps it, makes datasets of it and scores it."""

from collections.abc import Collection
from typing import NamedTuple

from flows.pipeline.models import choose_model
from flows.pipeline.plans import paperqa, ranking
from flows.pipeline.plans.steps import Step
from flows.pipeline.plans.submissions import PLACES, plan_entry
from flows.pipeline.walk import Pipeline, Slots
from schemas.errors import BadInput, UsageError
from schemas.settings import OrganizationSettings
from schemas.submission import Entry
from tasks.paperqa.scores import AnswerScoreSettings, paperqa_scores
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.submissions.deposits import deposit, is_made_of
from tasks.submissions.stages import Result, add_violations, check_entry
from tasks.submissions.topics import SLOTS


class Checked(NamedTuple):
    """A run that can be taken in: the steps that make its datasets and score it, and a result for each topic."""

    steps: list[Step]
    results: list[Result]


class Entered(NamedTuple):
    """A run that was taken in: its slots with those of its scores, and a result for each topic."""

    slots: Slots
    results: list[Result]


def enter_run(pipeline: Pipeline, entry: Entry, *, judge: str | None = None, refuse: bool = False) -> Entered:
    """Adds a run from outside to an edition, published or not, and scores it as the edition's other runs are scored.

    A run that is there already with the same content is found again; nothing is made twice. Arguments and errors are
    those of `check_run`; it may also fail because a stage does.
    """
    checked = check_run(pipeline, entry, judge=judge, refuse=refuse)
    return Entered(pipeline.walk(checked.steps), checked.results)


def check_run(pipeline: Pipeline, entry: Entry, *, judge: str | None = None, refuse: bool = False) -> Checked:
    """Checks a run from outside, and keeps what was handed in.

    Args:
        pipeline: The pipeline of the edition.
        entry: The run.
        judge: Model that grades free-text answers; None: the one that graded the edition's other runs.
        refuse: Refuse the run when a document would have to be removed, instead of removing it.

    Raises:
        UsageError: The edition has another run of that name, or does not have the task.
        BadInput: The run holds something that cannot be used, or a violation with `refuse`.
    """
    edition = Editions(pipeline.store).load(pipeline.edition)
    read = [slot for slot in SLOTS[entry.task] if slot in edition.slots]
    datasets = {slot: pipeline.store.open(edition.slots[slot]) for slot in read}
    results = check_entry(entry, datasets)
    if refuse and (removed := {reason: n for reason, n in add_violations(results).items() if n}):
        counts = ", ".join(f"{reason} {number:,}" for reason, number in removed.items())
        raise BadInput(
            f"run {entry.system.run}: documents that do not count: {counts}; take them out, or let them be removed "
            "with --violations remove"
        )
    require_free(pipeline, entry)
    step = plan_entry(entry, deposit(pipeline.store.root, edition.name, edition.release, entry))
    return Checked([step, _plan_scores(pipeline, entry, step.slot, judge)], results)


def require_free(pipeline: Pipeline, entry: Entry) -> None:
    """Checks that no other run of the edition has the name of this one.

    Raises:
        UsageError: One has.
    """
    slots = Editions(pipeline.store).load(pipeline.edition).slots
    for slot in taken_slots(slots, entry.system.run):
        if not is_made_of(pipeline.store.open(slots[slot]), entry):
            raise UsageError(
                f"edition {pipeline.edition} has another run {entry.system.run} ({slot}); give the changed system "
                "another version"
            )


def taken_slots(slots: Collection[str], run: str) -> list[str]:
    """Returns the slots of an edition in which a run of that name lies, of whatever task."""
    return sorted({f"{place.run}{run}" for place in PLACES.values()} & set(slots))


def _plan_scores(pipeline: Pipeline, entry: Entry, slot: str, judge: str | None) -> Step:
    if entry.task == "paperqa":
        return paperqa.plan_scores(slot, _answer_rule(pipeline, judge))
    if entry.task == "organization":
        from flows.pipeline.plans.organization import plan_tree_scores, tree_score_settings  # the extra `organize`
        from tasks.organization.scores import tree_scores

        scored = _scored(pipeline, "tree_scores/")
        rule = scored.manifest.settings(tree_scores) if scored else tree_score_settings(OrganizationSettings())
        return plan_tree_scores(slot, rule)
    return ranking.plan_scores(slot, entry.subset)


def _answer_rule(pipeline: Pipeline, judge: str | None) -> AnswerScoreSettings:
    if judge:
        return AnswerScoreSettings(judge=choose_model(pipeline.store.root, judge))
    scored = _scored(pipeline, "airqa/scores/")
    return scored.manifest.settings(paperqa_scores) if scored else AnswerScoreSettings()


def _scored(pipeline: Pipeline, kind: str) -> Dataset | None:
    """Returns scores of the edition, by whose settings another system is scored too; None: there are none."""
    slots = Editions(pipeline.store).load(pipeline.edition).slots
    first = next((slot for slot in sorted(slots) if slot.startswith(kind)), None)
    return pipeline.store.open(slots[first]) if first else None
