"""Commands on editions and on the store they live in: list, show, diff, fresh, verify, publish, gc."""

from datetime import date
from pathlib import Path

from flows.commands.options import Folder, Whole, open_store, writes_to
from flows.commands.terminal import show_json, show_list, show_rows, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.changes import change_rows, fresh_rows
from flows.pipeline.walk import choose_edition
from schemas.errors import StoreError, UsageError
from schemas.identifiers import EditionName
from tasks.store.collect import collect
from tasks.store.editions import Editions


def list_editions(*, folder: Folder = None, json: bool = False) -> None:
    """List the editions of the store.

    Args:
        json: Print as JSON.
    """
    editions = Editions(open_store(folder))
    rows = [
        {
            "edition": found.name,
            "release": found.release,
            "published": found.published.isoformat() if found.published else None,
            "datasets": len(found.slots),
            "runs": sum(slot.startswith("run/") for slot in found.slots),
        }
        for found in map(editions.load, editions.names())
    ]
    show_list(rows, json=json)


def show(name: EditionName, /, *, folder: Folder = None, json: bool = False) -> None:
    """Show an edition's datasets, and from what each was made, down to the release files.

    Args:
        name: The edition.
        json: Print as JSON.
    """
    store = open_store(folder)
    edition = Editions(store).load(name)
    lineage = tables.lineage_rows(store, edition.slots)
    if json:
        show_json({**edition.model_dump(mode="json"), "lineage": lineage})
    else:
        state = f"published {edition.published:%Y-%m-%d}" if edition.published else "draft"
        show_rows(lineage, f"edition {name} of release {edition.release} ({state})")


def diff(old: EditionName, new: EditionName, /, *, folder: Folder = None, json: bool = False) -> None:
    """Show what changed from one edition to another: datasets, topics, and scores on the topics that did not change.

    Args:
        old: The earlier edition.
        new: The later one.
        json: Print as JSON.
    """
    found = change_rows(open_store(folder), old, new)
    if json:
        show_json(found._asdict())
        return
    show_rows(found.datasets, f"datasets of {old} and {new}")
    show_rows(found.topics, f"topics that are not the same in {old} and {new}")
    show_rows(
        found.scores, "means on the topics that are the same (difference: 95 % paired bootstrap), and on new ones"
    )


def fresh(name: EditionName, /, *, after: date, folder: Folder = None, json: bool = False) -> None:
    """Show scores on topics with surveys published after a day, next to the others, to spot contamination by training.

    Args:
        name: The edition.
        after: The day up to which the model was trained, for example 2025-06-30.
        json: Print as JSON.
    """
    rows = fresh_rows(open_store(folder), name, after)
    if json:
        show_json({"edition": name, "after": after.isoformat(), "scores": rows})
    else:
        show_rows(rows, f"edition {name}: surveys published after {after:%Y-%m-%d} and the others")


def verify(name: EditionName, /, *, quick: bool = False, folder: Folder = None, json: bool = False) -> None:
    """Read every file of an edition, and compare it with the sha256 that it was built with.

    What the served desk recorded of the edition's runs is checked too: each row holds the hash of the one before.

    Args:
        name: The edition.
        quick: Only look whether every file is there and of the right size.
        json: Print the problems as JSON.
    """
    store = open_store(folder)
    from tasks.service.record import record_problems

    damaged = Editions(store).problems(name, check_hashes=not quick)
    problems = [*damaged, *record_problems(store.root, name)]
    rows = [{"path": str(problem.path), "problem": problem.what} for problem in problems]
    if json:
        show_json(rows)
    elif rows:
        show_rows(rows)
    if problems:
        raise StoreError(
            f"edition {name}: {len(problems)} problems, the first: {problems[0].path} {problems[0].what}; "
            + (f"run: arena rerun --damaged --edition {name}" if damaged else "restore the record from a copy")
        )
    if not json:
        show_text(f"edition {name}: every file is whole" + (" (only sizes were compared)" if quick else ""))


def mindmap(
    topic: Whole,
    /,
    *,
    edition: EditionName | None = None,
    to: Path = Path("mindmaps"),
    folder: Folder = None,
) -> None:
    """Draw a topic's mind-map beside the tree that each system built, headings that met marked.

    Args:
        topic: corpus_id of the survey.
        edition: Name of the edition; may be left out when there is only one.
        to: Folder for an SVG file a system.
    """
    store = open_store(folder)
    name = choose_edition(store, edition)
    slots = Editions(store).load(name).slots
    from tasks.organization.scores import tree_scores
    from tasks.reports.sections.organization import draw_topics

    to.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for slot in (slot for slot in slots if slot.startswith("tree_scores/")):
        tag, scores = slot.removeprefix("tree_scores/"), store.open(slots[slot])
        trees = f"trees/{tag.removesuffix(scores.manifest.settings(tree_scores).mark)}"
        for figure in draw_topics(store.open(slots["mindmaps"]), store.open(slots[trees]), scores, topic):
            with writes_to(to):
                (to / f"{topic}.{tag}.svg").write_text(figure.svg)
            drawn += 1
    if not drawn:
        raise UsageError(f"edition {name}: no system built a tree of topic {topic}; see arena run organization")
    show_text(f"{to}: {drawn} drawings of topic {topic}")


def publish(name: EditionName, /, *, folder: Folder = None, json: bool = False) -> None:
    """Freeze an edition after checking the content of every file; runs can still be added.

    Args:
        name: The edition.
        json: Print it as JSON.
    """
    edition = Editions(open_store(folder)).publish(name)
    if json:
        show_json(edition.model_dump(mode="json"))
    else:
        show_text(f"edition {name} was published at {edition.published:%Y-%m-%d %H:%M} UTC")


def gc(*, delete: bool = False, folder: Folder = None, json: bool = False) -> None:
    """List datasets that no edition uses, and delete them on request.

    Args:
        delete: Delete them. Without this option nothing changes.
        json: Print as JSON.
    """
    garbage = collect(open_store(folder), dry_run=not delete)
    rows = [{"path": str(item.path), "MB": round(item.size / 1e6, 1), "why": item.why} for item in garbage]
    if json:
        show_json({"deleted": delete, "found": rows})
        return
    total = sum(item.size for item in garbage) / 1e6
    if rows:
        show_rows(rows, decimals=1)
    show_text(f"{len(rows)} folders, {total:,.1f} MB {'deleted' if delete else 'can go; add --delete to delete them'}")
