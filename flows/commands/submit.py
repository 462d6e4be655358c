"""`arena submit`: a run of a system from outside enters an edition."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from flows.commands.estimate import show_rehearsal
from flows.commands.options import FLAT, Count, Whole, open_pipeline
from flows.commands.terminal import show_json, show_rows, show_scores, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.submissions import Entered, check_run, enter_run
from flows.pipeline.walk import Pipeline
from schemas.errors import UsageError
from schemas.identifiers import EditionName
from schemas.submission import Entry, Handed, Header, Kind, Sample, System, Task
from tasks.ranking.views import VIEWS
from tasks.submissions.files import SubmittedFile, read_submissions
from tasks.submissions.stages import add_violations


def submit(
    file: Path,
    /,
    *,
    edition: EditionName | None = None,
    task: Task | None = None,
    system: str | None = None,
    system_version: str | None = None,
    kind: Kind = "own_tools",
    description: str = "",
    sample_topics: Count | None = None,
    seed: Whole = 42,
    violations: Literal["remove", "refuse"] = "remove",
    judge: str | None = None,
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Add a run of a system from outside to an edition, and score it like the edition's own runs.

    The file may be JSON lines {"topic": ..., "ranking" or "tree" or "answer": ..., "status": ..., "usage": {...}}, a
    TREC run, CSV or Parquet. A topic that it leaves out counts as empty, one that the edition does not have is an
    error. The first of JSON lines may be {"system": {...}, "edition": ..., "task": ...}, in place of the options.

    Args:
        file: What the system returned.
        edition: Name of the edition; may be left out when the file says it, or when there is only one.
        task: What the run answers: discovery and selection are two views of one ranking.
        system: Name of the system; the run is named SYSTEM@VERSION.
        system_version: Version of the system; a changed system is another run.
        kind: What the system may have used: the desk alone, tools of its own beside it, or nobody outside knows.
        description: What the system does.
        sample_topics: The run is over a random sample of this many topics.
        seed: Seed of the sample.
        violations: Remove documents that the topic may not see, and repeated ones, or refuse the run.
        judge: Model that grades free-text answers; left out: the one that graded the edition's other runs.
        dry_run: Add the run, estimate what the judge's calls would cost, and stop before it is asked.
        json: Print counts and scores as JSON.
    """
    found = read_submissions(file)
    given = {"name": system, "version": system_version, "kind": kind, "description": description}
    options = Header(
        system=System.model_validate(given) if system and system_version else None,
        edition=edition,
        task=task,
        sample=Sample(topics=sample_topics, seed=seed) if sample_topics else None,
    )
    header = _choose(found.header, options)
    if header.system is None or header.task is None:
        raise UsageError(
            f"{file}: whose run is it, and of which task? add --task, --system and --system-version, or a first line "
            '{"system": {"name": ..., "version": ...}, "task": ...}'
        )
    entry = _entry(found, header.system, header.task, header.sample)
    machine, refuse = machine or Machine(), violations == "refuse"
    with open_pipeline(machine, header.edition, control) as pipeline:
        if dry_run:
            steps = check_run(pipeline, entry, judge=judge, refuse=refuse).steps
            show_rehearsal(pipeline, steps, machine, None, json)
            return
        entered = enter_run(pipeline, entry, judge=judge, refuse=refuse)
    _show(pipeline, entry, entered, json)


def _choose(header: Header, options: Header) -> Header:
    """Returns what the header of the file and the options say together.

    Raises:
        UsageError: They differ.
    """
    chosen = {name: value for name, value in options if value is not None}
    for name, value in header:
        if value is not None and chosen.setdefault(name, value) != value:
            raise UsageError(f"the options name another {name} than the first line of the file; leave one of them out")
    return Header.model_validate(chosen)


def _entry(found: SubmittedFile, system: System, task: Task, sample: Sample | None) -> Entry:
    return Entry(system, task, {topic: Handed(submission) for topic, submission in found.topics.items()}, sample)


def _show(pipeline: Pipeline, entry: Entry, entered: Entered, json: bool) -> None:
    results = entered.results
    counts: dict[str, Any] = {
        "topics": len(results),
        "handed_in": len(entry.topics),
        "outcomes": dict(Counter(result.checked.outcome for result in results)),
        "violations": dict(add_violations(results)),
        "outside": sum(len(result.checked.outside) for result in results),
    }
    scores = _scores(pipeline, entry, entered)
    if json:
        made = {"scores": scores, "datasets": tables.slot_refs(entered.slots)}
        show_json({"edition": pipeline.edition, "run": entry.system.run, **counts, **made})
        return
    told = [f"{name.replace('_', ' ')} {_words(value)}" for name, value in counts.items()]
    show_text(f"run {entry.system.run}: {'; '.join(told)}")
    for labels, rows in scores.items():
        if entry.task in ("discovery", "selection"):
            show_scores(rows, entry.task, f"edition {pipeline.edition}, {labels} labels")
        else:
            show_rows(rows, f"{entry.task}, edition {pipeline.edition}")


def _words(counts: dict[str, int] | int) -> str:
    if isinstance(counts, int):
        return f"{counts:,}"
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "none"


def _scores(pipeline: Pipeline, entry: Entry, entered: Entered) -> dict[str, list[tables.Row]]:
    """Returns the means of the run, by labels."""
    store, slots = pipeline.store, entered.slots
    if entry.task == "organization":
        return {"trees": tables.tree_rows(store, slots)}
    if entry.task == "paperqa":
        return {"answers": tables.answer_rows(store, slots)}
    return {labels: tables.score_rows(store, slots, entry.task, labels) for labels in VIEWS[entry.task].labels}
