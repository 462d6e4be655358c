"""The stages that turn a run from outside into the datasets that our own systems write: a run, trees, answers."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from schemas.errors import BadInput, StageFailed
from schemas.mindmap import Shape, dump_tree, tree_shape
from schemas.settings import TopicSubset
from schemas.submission import Entry, Handed, Submission, System, Task
from schemas.table import AnyTable
from schemas.tables.paperqa_runs import PAPERQA_ANSWERS, PAPERQA_LOOKUPS, PAPERQA_STEPS, PaperqaAnswerRow
from schemas.tables.runs import OUTCOMES, RUNS, SEARCHES, STEPS, OutcomeRow, RunRow
from schemas.tables.submissions import OUTSIDE_DOCUMENTS, SUBMISSIONS, OutsideDocumentRow, SubmissionRow
from schemas.tables.trees import TREES, TreeRow
from tasks.retrieval.documents import load_catalogue
from tasks.retrieval.retriever import Allowed
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace
from tasks.submissions.deposits import read_deposit
from tasks.submissions.rules import Checked, check_submission
from tasks.submissions.topics import SLOTS, Asked, asked_topics

Tables = Mapping[str, tuple[AnyTable, Iterable[Any]]]
"""Rows of each table, by the prefix of its file."""


class SubmissionSettings(TopicSubset):
    """Whose run it is, and which topics it was to answer."""

    system: System = Field(description="The system, as its makers describe it.")
    task: Task = Field(description="What the run answers.")
    tag: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", description="Name of the run.")


class Result(NamedTuple):
    """A topic, what was handed in for it, and what of it counts."""

    asked: Asked
    handed: Handed | None
    checked: Checked


def check_entry(entry: Entry, datasets: Mapping[str, Dataset]) -> list[Result]:
    """Checks a run against an edition: a result for every topic that it was to answer, in the order of the topics.

    Args:
        entry: The run.
        datasets: The edition's datasets by slot; those of `SLOTS` are read.

    Raises:
        BadInput: The run names a topic that was not asked, or what it holds for one cannot be used.
        UsageError: The edition does not have the task.
    """
    asked = asked_topics(entry.task, datasets, entry.subset)
    if strangers := sorted(entry.topics.keys() - {one.topic for one in asked}):
        raise BadInput(
            f"run {entry.system.run}: {len(strangers)} topics are not among the {len(asked)} that task {entry.task} "
            f"asks of this edition, the first is {strangers[0]!r}; take them out, or choose another edition"
        )
    judged = entry.task != "paperqa" and any(handed.submission.ranking for handed in entry.topics.values())
    catalogue = load_catalogue(datasets["documents"], datasets["surveys"]) if judged else None
    results: list[Result] = []
    for one in asked:
        handed = entry.topics.get(one.topic)
        allowed = Allowed.of(catalogue, one.survey) if catalogue and one.survey else None
        results.append(Result(one, handed, _check(entry.task, one, handed, allowed)))
    return results


def _check(task: Task, asked: Asked, handed: Handed | None, allowed: Allowed | None) -> Checked:
    if handed is None:
        return Checked()
    try:
        return check_submission(task, handed.submission, allowed, handed.returned)
    except BadInput as error:
        raise BadInput(f"topic {asked.topic}: {error}") from error


def add_violations(results: Iterable[Result]) -> Counter[str]:
    """Returns how many documents were removed from a run's rankings, by reason."""
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.checked.violations)
    return counts


@stage("submitted_run", version=2, settings=SubmissionSettings, after="run")
def submitted_run(work: Workspace[SubmissionSettings]) -> None:
    """Writes RUNS and, as side tables, SEARCHES, STEPS, OUTCOMES, SUBMISSIONS and OUTSIDE_DOCUMENTS.

    Inputs: `submission` (of `deposit`), `topics`, `documents`, `surveys`. A score is the negated rank.
    """
    tag, results = work.settings.tag, _checked(work)
    _write(work, results, {"part": (RUNS, _run_rows(tag, results)), **_ranking_tables(results)})


@stage("submitted_trees", version=2, settings=SubmissionSettings, after="organize")
def submitted_trees(work: Workspace[SubmissionSettings]) -> None:
    """Writes TREES and, as side tables, RUNS, SEARCHES, STEPS, OUTCOMES, SUBMISSIONS and OUTSIDE_DOCUMENTS.

    Inputs: `submission` (of `deposit`), `topics`, `documents`, `surveys`, `mindmaps`.
    """
    tag, results = work.settings.tag, _checked(work)
    trees = [_tree_row(tag, result) for result in results]
    ranked = {"runs": (RUNS, _run_rows(tag, results)), **_ranking_tables(results)}
    _write(work, results, {"part": (TREES, trees), **ranked})


@stage("submitted_answers", version=1, settings=SubmissionSettings, after="paperqa_run")
def submitted_answers(work: Workspace[SubmissionSettings]) -> None:
    """Writes PAPERQA_ANSWERS and, as side tables, SUBMISSIONS and (without rows) PAPERQA_STEPS and PAPERQA_LOOKUPS.

    Inputs: `submission` (of `deposit`), `questions`.
    """
    tag, results = work.settings.tag, _checked(work)
    answers = [_answer_row(tag, result) for result in results]
    empty: Tables = {"steps": (PAPERQA_STEPS, ()), "lookups": (PAPERQA_LOOKUPS, ())}
    _write(work, results, {"part": (PAPERQA_ANSWERS, answers), **empty})


def _checked(work: Workspace[SubmissionSettings]) -> list[Result]:
    settings = work.settings
    entry = read_deposit(work.release("submission"))
    if (entry.system, entry.task) != (settings.system, settings.task) or entry.subset != _subset(settings):
        raise StageFailed(f"run {settings.tag}: the file that was handed in is of another run; hand it in again")
    slots = {slot: slot.rpartition("/")[2] for slot in SLOTS[entry.task]}
    return check_entry(entry, {slot: work.dataset(name) for slot, name in slots.items()})


def _subset(settings: SubmissionSettings) -> TopicSubset:
    return TopicSubset.model_validate({name: getattr(settings, name) for name in TopicSubset.model_fields})


def _run_rows(tag: str, results: list[Result]) -> list[RunRow]:
    return [
        RunRow(int(result.asked.topic), document, rank, -float(rank), tag)
        for result in results
        for rank, document in enumerate(result.checked.documents, 1)
    ]


def _ranking_tables(results: list[Result]) -> Tables:
    searches = [search for result in results if result.handed for search in result.handed.searches]
    steps = [step for result in results if result.handed for step in result.handed.steps]
    ended = [OutcomeRow(int(r.asked.topic), r.checked.outcome, r.checked.note, fallback=False) for r in results]
    outside = [OutsideDocumentRow(int(r.asked.topic), document) for r in results for document in r.checked.outside]
    return {
        SEARCHES.name: (SEARCHES, searches),
        STEPS.name: (STEPS, steps),
        OUTCOMES.name: (OUTCOMES, ended),
        OUTSIDE_DOCUMENTS.name: (OUTSIDE_DOCUMENTS, outside),
    }


def _tree_row(tag: str, result: Result) -> TreeRow:
    checked = result.checked
    tree = checked.tree if checked.outcome == "scored" else None
    shape = tree_shape(tree) if tree else Shape(0, 0)
    return TreeRow(
        tag,
        int(result.asked.topic),
        checked.outcome,
        checked.note,
        fallback=False,
        references=len(checked.documents),
        tree=dump_tree(tree) if tree else None,
        nodes=shape.nodes,
        depth=shape.depth,
    )


def _answer_row(tag: str, result: Result) -> PaperqaAnswerRow:
    checked, usage = result.checked, _submission(result).usage
    scored = checked.outcome == "scored"
    return PaperqaAnswerRow(
        tag,
        result.asked.topic,
        answer=checked.answer if scored else None,
        outcome="answered" if scored else checked.outcome,
        note=checked.note,
        turns=0,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.usd,
    )


def _submission(result: Result) -> Submission:
    return result.handed.submission if result.handed else Submission()


def _submission_row(result: Result) -> SubmissionRow:
    checked, usage = result.checked, _submission(result).usage
    return SubmissionRow(
        result.asked.topic,
        handed_in=result.handed is not None,
        accepted=checked.accepted,
        unavailable=checked.unavailable,
        duplicate=checked.duplicate,
        outside=len(checked.outside),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usd=usage.usd,
        seconds=usage.seconds,
    )


def _write(work: Workspace[SubmissionSettings], results: list[Result], tables: Tables) -> None:
    """Writes the tables of a run and its SUBMISSIONS, and counts how its topics ended and what was removed."""
    submissions = sorted(map(_submission_row, results))
    for shard in work.pending(["all"]):
        with shard:
            for prefix, (table, rows) in {**tables, SUBMISSIONS.name: (SUBMISSIONS, submissions)}.items():
                write_rows(shard.file(f"{prefix}-00000.parquet"), table, rows)
            ended = Counter(result.checked.outcome for result in results)
            shard.counts.read = len(results)
            shard.counts.kept = ended.pop("scored", 0)
            shard.counts.failed = ended.pop("failed", 0)
            shard.counts.dropped = dict(sorted(ended.items()))
            outside = sum(len(result.checked.outside) for result in results)
            shard.counts.notes = {**add_violations(results), "outside": outside}
