"""Shows what a command would ask language models, for its option `--dry-run`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.commands.terminal import show_json, show_rows
from flows.pipeline.machine import Machine
from flows.pipeline.plans.steps import Step
from flows.pipeline.walk import Pipeline
from schemas.llm import Estimate

if TYPE_CHECKING:
    from flows.pipeline.estimates import StepEstimate
    from flows.pipeline.rerun import Chosen


def show_usual_demand(pipeline: Pipeline, steps: Sequence[Step], json: bool) -> None:
    """Prints the language model calls of each run and tree, from what systems usually need; runs nothing."""
    from flows.pipeline.estimates import estimate_steps

    _show(pipeline.edition, estimate_steps(pipeline.store, pipeline.edition, steps), (), json)


def show_rehearsal(
    pipeline: Pipeline, steps: Sequence[Step], machine: Machine, release: str | None, json: bool
) -> None:
    """Builds what needs no language model, and prints the calls of the steps that do, from their real prompts."""
    from flows.pipeline.estimates import rehearse_steps

    _show(pipeline.edition, *rehearse_steps(pipeline, steps, machine, release), json)


def show_rerun(pipeline: Pipeline, chosen: "Chosen", machine: Machine, json: bool) -> None:
    """Prints the calls that rebuilding slots would make; builds nothing."""
    from flows.pipeline.estimates import rehearse_rerun

    _show(pipeline.edition, *rehearse_rerun(pipeline, chosen, machine), json)


def show_calls(estimate: Estimate, json: bool) -> None:
    """Prints an estimate of calls that belong to no edition."""
    if json:
        show_json(estimate._asdict())
    else:
        show_rows([estimate._asdict()], "estimated cost; no model was asked")


def _show(edition: str, found: "Sequence[StepEstimate]", later: Sequence[str], json: bool) -> None:
    rows = [step._asdict() for step in found]
    total = sum(step.usd for step in found)
    if json:
        show_json({"edition": edition, "estimate": rows, "usd": total, "later": list(later)})
        return
    show_rows(rows, f"about {sum(step.calls for step in found):,} calls, {total:,.2f} USD; cached calls are free")
    if later:
        show_rows([{"slot": slot} for slot in later], "can be estimated once those above are built")
