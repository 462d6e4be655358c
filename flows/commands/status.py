"""Commands for operators: the state of editions, and rerunning a stage."""

from typing import Annotated

from flows.commands.estimate import show_rerun
from flows.commands.options import FLAT, Decimal, Folder, open_pipeline, open_store
from flows.commands.terminal import show_json, show_rows, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.rerun import AskedAgain, choose
from flows.pipeline.rerun import rerun as run_again
from flows.pipeline.stages import StageControl
from flows.pipeline.status import SlotStatus, edition_status
from schemas.errors import UsageError
from schemas.identifiers import EditionName
from tasks.store.editions import Editions


def status(*, edition: EditionName | None = None, folder: Folder = None, json: bool = False) -> None:
    """Show the stages of editions: state, age, size, and whether the next run would execute them.

    Args:
        edition: Name of the edition; left out: all editions.
        json: Print as JSON.
    """
    store = open_store(folder)
    editions = Editions(store)
    names = [editions.load(edition).name] if edition else editions.names()
    found = {name: edition_status(store, name) for name in names}
    if json:
        show_json([_as_json(editions, name, slots) for name, slots in found.items()])
        return
    for name, slots in found.items():
        known = editions.load(name)
        state = f"published {known.published:%Y-%m-%d}" if known.published else "draft"
        show_rows([_row(slot) for slot in slots], f"edition {name} of release {known.release} ({state})", decimals=1)
        waiting = [slot.slot for slot in slots if slot.runs == "yes"]
        show_text(f"would run: {', '.join(waiting)}" if waiting else "nothing would run")
    if not found:
        show_text(f"no edition in {store.root} yet; run: arena build")


def rerun(
    stage: str | None = None,
    /,
    *,
    edition: EditionName | None = None,
    force: bool = False,
    damaged: bool = False,
    outcome: tuple[AskedAgain, ...] = (),
    max_usd: Decimal | None = None,
    dry_run: bool = False,
    machine: Annotated[Machine | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Rerun one stage of an edition with its recorded settings, then every stage whose inputs changed.

    Args:
        stage: A stage or one slot, as `arena status` shows them; may be left out with --damaged and --outcome.
        edition: Name of the edition; may be left out when there is only one.
        force: Run the stage even if its dataset is whole.
        damaged: Read every byte, and rebuild the datasets that are damaged and what was made from them.
        outcome: Ask a model again only about the topics, queries or questions that ended so, and keep all others;
            `failed` includes those where a fallback stood in for a failed call. Without a stage: of all stages.
        max_usd: Most that the edition may spend on language models in total, in USD.
        dry_run: Rebuild nothing; estimate the language model calls and their cost.
        json: Print the datasets as JSON.
    """
    if damaged and (force or outcome):
        raise UsageError("--damaged goes with neither --force nor --outcome; give one of them")
    mode = "damaged" if damaged else "force" if force else "if_failed"
    machine = machine or Machine()
    with open_pipeline(machine, edition, StageControl(max_usd=max_usd)) as pipeline:
        chosen = choose(pipeline, stage, mode, outcomes=outcome)
        if dry_run:
            show_rerun(pipeline, chosen, machine, json)
            return
        built = run_again(pipeline, chosen)
    if json:
        show_json({"edition": pipeline.edition, "datasets": tables.slot_refs(built)})
    elif outcome and not built:
        show_text(f"edition {pipeline.edition}: nothing ended as {', '.join(outcome)}")
    elif built:
        show_rows(tables.count_rows(pipeline.store, built), f"edition {pipeline.edition}", decimals=1)
    else:
        show_text(f"edition {pipeline.edition}: every file is whole")


def _row(slot: SlotStatus) -> tables.Row:
    return {
        "slot": slot.slot,
        "state": slot.state,
        "hours old": slot.age_hours,
        "MB": slot.size / 1e6,
        "would run": slot.runs,
        "why": slot.why,
    }


def _as_json(editions: Editions, name: str, slots: list[SlotStatus]) -> dict[str, object]:
    known = editions.load(name)
    return {
        "edition": name,
        "release": known.release,
        "published": known.published,
        "slots": [{**slot._asdict(), "age_hours": slot.age_hours} for slot in slots],
        "would_run": [slot.slot for slot in slots if slot.runs == "yes"],
    }
