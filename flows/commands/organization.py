"""Commands on mind-maps: building and scoring trees of an edition, scoring trees and headings in files."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.build import show_estimate
from flows.commands.options import FLAT, Folder, open_pipeline, open_store
from flows.commands.terminal import show_json, show_rows, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import choose_edition
from schemas.errors import UsageError
from schemas.mindmap import Tree
from schemas.settings import OrganizationSettings
from schemas.tables.tree_scores import distance_measure
from tasks.reports.sections.organization import draw_topics
from tasks.store.editions import Editions

HEADING_MEASURES = ("hsr", "her", "her_fallback", "gold_nodes", "nodes")


def organization(
    *,
    edition: str | None = None,
    maps: Path | None = None,
    settings: Annotated[OrganizationSettings, FLAT] = OrganizationSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Make mind-maps of an edition's topics, and score them against those of the surveys' authors.

    Args:
        edition: Its name; may be left out when there is only one.
        maps: JSON lines of transcribed mind-maps; left out: those that the edition has.
        dry_run: Run nothing; say what would be asked of a language model and what that would cost.
        json: Print the scores as JSON.
    """
    with open_pipeline(machine or Machine(), edition, control) as pipeline:
        if dry_run:
            show_estimate(pipeline, pipeline.plan_trees(settings, maps), json)
            return
        built = pipeline.organize(settings, maps)
    found = tables.tree_rows(pipeline.store, built)
    if json:
        show_json({"edition": pipeline.edition, "scores": found, "datasets": tables.slot_refs(built)})
    else:
        show_rows(found, f"organization, edition {pipeline.edition}: mean over topics with a mind-map")


def mindmap(
    topic: int,
    /,
    *,
    edition: str | None = None,
    to: Path = Path("mindmaps"),
    folder: Folder = None,
) -> None:
    """Draw a topic's mind-map beside the tree that each system built, headings that met marked.

    Args:
        topic: corpus_id of the survey.
        edition: Its name; may be left out when there is only one.
        to: Folder for an SVG file a system.
    """
    store = open_store(folder)
    name = choose_edition(store, edition)
    slots = Editions(store).load(name).slots
    to.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for slot in (slot for slot in slots if slot.startswith("tree_scores/")):
        tag = slot.removeprefix("tree_scores/")
        inputs = (store.open(slots[needed]) for needed in ("mindmaps", f"trees/{tag}", slot))
        for figure in draw_topics(*inputs, topic=topic):
            (to / f"{topic}.{tag}.svg").write_text(figure.svg)
            drawn += 1
    if not drawn:
        raise UsageError(f"edition {name}: no system built a tree of topic {topic}; see arena run organization")
    show_text(f"{to}: {drawn} drawings of topic {topic}")


def tree(
    *,
    gold: Path,
    pred: Path,
    encoder: str = "paraphrase-MiniLM-L6-v2",
    threshold: float = 0.8,
    entities: Annotated[str, Parameter(help="rules or flair")] = "rules",
    svg: Path | None = None,
    json: bool = False,
) -> None:
    """Score trees against gold mind-maps: tree distances, node counts, heading recalls.

    Args:
        gold: One JSON tree, or JSON lines `{"file" or "corpusid" or ...: name, "tree": tree}`.
        pred: Likewise; a gold tree without counterpart is scored as not built.
        encoder: Sentence encoder of headings; all-MiniLM-L6-v2 is found offline.
        threshold: Headings more similar than this match in the tree semantic distance.
        entities: Who finds entities.
        svg: Folder to draw each pair into, matched headings marked.
        json: Print per-tree values and their means as JSON.
    """
    rows = _score(gold, pred, encoder, threshold, entities, svg)
    if json:
        show_json({"encoder": encoder, "threshold": threshold, "trees": rows, "mean": _mean(rows)})
        return
    shown = [*rows, _mean(rows)] if len(rows) > 1 else rows
    distances = [name for name in rows[0] if name.startswith("tsd_") and name != "tsd_normalised"]
    others = [name for name in rows[0] if name not in (*distances, "built")]
    chosen = distance_measure(threshold)
    main: list[tables.Row] = [{name: row[name] for name in [*others, chosen] if name in row} for row in shown]
    show_rows(main, f"{pred.name} against {gold.name}: headings compared by {encoder}, matching above {threshold:g}")
    by_threshold: list[tables.Row] = [{name: row[name] for name in ["name", *distances]} for row in shown[-1:]]
    show_rows(by_threshold, "tree semantic distance by threshold")


def headings(
    *,
    gold: Path,
    pred: Path,
    encoder: str = "paraphrase-MiniLM-L6-v2",
    entities: Annotated[str, Parameter(help="rules or flair")] = "rules",
    json: bool = False,
) -> None:
    """Score the headings of trees: heading soft recall and heading entity recall.

    Args:
        gold: As for `arena score tree`.
        pred: Likewise.
        encoder: Sentence encoder of headings; all-MiniLM-L6-v2 is found offline.
        entities: Who finds entities.
        json: Print per-tree values and their means as JSON.
    """
    scored = _score(gold, pred, encoder, 0.8, entities, None)
    rows: list[tables.Row] = [
        {name: row[name] for name in ("name", *HEADING_MEASURES) if name in row} for row in scored
    ]
    if json:
        show_json({"encoder": encoder, "trees": rows, "mean": _mean(rows)})
        return
    show_rows([*rows, _mean(rows)] if len(rows) > 1 else rows, f"{pred.name} against {gold.name}, {encoder}")


def _score(gold: Path, pred: Path, encoder: str, threshold: float, entities: str, svg: Path | None) -> list[tables.Row]:
    from tasks.index.encoder import Encoder
    from tasks.organization.heading_vectors import LabelVectors, label_encoder
    from tasks.organization.scores import TreeScorer, TreeScoreSettings
    from tasks.organization.tree_files import read_trees
    from tasks.reports.treedrawing import draw_trees

    golden, built = read_trees(gold), read_trees(pred)
    if not golden.trees.keys() & built.trees.keys():
        raise UsageError(
            f"no tree of {pred} has the name of one of {gold} (of {pred.name}: {', '.join(sorted(built.trees)[:3])}...)"
        )
    chosen = {"encoder": label_encoder(encoder), "threshold": threshold, "entities": entities}
    rule = TreeScoreSettings.model_validate(chosen)
    scorer = TreeScorer(LabelVectors(Encoder(rule.encoder).encode), rule)
    rows: list[tables.Row] = []
    for number, (name, tree) in enumerate(golden.trees.items()):
        other: Tree | None = built.trees.get(name)
        scored = scorer.score(tree, other)
        rows.append({"name": name, "built": "no" if other is None else "yes", **scored.values})
        if svg and other:
            svg.mkdir(parents=True, exist_ok=True)
            met = {match.label: match.match for match in scored.matches if match.side == "gold"}
            (svg / f"{number:05d}.svg").write_text(draw_trees(tree, other, met))
    return rows


def _mean(rows: list[tables.Row]) -> tables.Row:
    """Means over the rows that have a value."""
    means: tables.Row = {"name": "mean"}
    for name in list(rows[0])[1:]:
        values = [value for row in rows if isinstance(value := row[name], int | float)]
        means[name] = sum(values) / len(values) if values else None
    return means
