"""Commands `arena score`: score rankings, trees and headings in files."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flows.commands.options import Decimal
from flows.commands.terminal import show_json, show_rows
from flows.pipeline import summaries as tables
from schemas.errors import UsageError
from schemas.mindmap import Tree
from schemas.settings import DistanceReading
from schemas.tables.tree_scores import distance_measure
from tasks.metrics.ranking import Labels, evaluate_run
from tasks.ranking.run_files import read_qrels, read_run

if TYPE_CHECKING:
    from tasks.organization.scores import TreeScoreSettings

HEADING_MEASURES = ("hsr", "her", "her_fallback", "gold_nodes", "nodes")


def ranking(qrels: Path, run: Path, /, *, labels: Labels = "graded", json: bool = False) -> None:
    """Score a run file against relevance judgments, as trec_eval does.

    Both files may be in TREC format or JSON. A topic missing from the run counts as 0 in `mean_all` and is left out of
    `mean_evaluated`.

    Args:
        qrels: Judgments: `topic 0 document label` lines, or {topic: {document: label}}.
        run: Rankings: `topic Q0 document rank score tag` lines, or {topic: [[document, score], ...]}.
        labels: `graded` uses the labels as they are; `influential` counts only labels of 2 and more.
        json: Print the values per topic and both means as JSON.
    """
    evaluation = evaluate_run(read_qrels(qrels), read_run(run), labels)
    if json:
        show_json(evaluation)
        return
    means = {"mean_all": evaluation["mean_all"] or {}, "mean_evaluated": evaluation["mean_evaluated"] or {}}
    names = list(means["mean_all"] or means["mean_evaluated"])
    rows = [{"measure": name, **{kind: values.get(name) for kind, values in means.items()}} for name in names]
    show_rows(rows, f"{run.name}, {labels} labels, {len(evaluation['per_topic'])} topics evaluated")


def tree(
    *,
    gold: Path,
    pred: Path,
    encoder: str = "paraphrase-MiniLM-L6-v2",
    threshold: Decimal = 0.8,
    distance: tuple[DistanceReading, ...] = (),
    entities: Literal["auto", "flair", "rules"] = "auto",
    svg: Path | None = None,
    json: bool = False,
) -> None:
    """Score trees against gold mind-maps: tree distances, node counts, recall of headings.

    Args:
        gold: One JSON tree, or JSON lines `{"file" or "corpusid" or ...: name, "tree": tree}`.
        pred: In the same format; a gold tree without a counterpart is scored as not built.
        encoder: Sentence encoder for headings; all-MiniLM-L6-v2 works offline.
        threshold: Headings match in the tree semantic distance if their similarity is above this.
        distance: Other readings of that distance: headings also match at the threshold (ge), deleting and inserting
            headings that match is free as well (free_ops), siblings are first put in the gold order (aligned).
        entities: Whether FLAIR finds entities for `her`: where it is at hand, always or never.
        svg: Folder for a drawing of each pair, with matched headings marked.
        json: Print the values per tree and their means as JSON.
    """
    rule = _rule(encoder, entities, threshold, distance)
    rows = _score(gold, pred, rule, svg)
    if json:
        shown = {"encoder": encoder, "threshold": threshold, "distance": rule.distance}
        show_json({**shown, "trees": rows, "mean": _mean(rows)})
        return
    shown = [*rows, _mean(rows)] if len(rows) > 1 else rows
    distances = [name for name in rows[0] if name.startswith("tsd_") and name != "tsd_normalised"]
    others = [name for name in rows[0] if name not in (*distances, "built")]
    chosen = distance_measure(threshold)
    main = [{name: row[name] for name in [*others, chosen] if name in row} for row in shown]
    matching = f"matching above {threshold:g}{rule.readings}"
    show_rows(main, f"{pred.name} against {gold.name}: headings compared by {encoder}, {matching}")
    by_threshold = [{name: row[name] for name in ["name", *distances]} for row in shown[-1:]]
    show_rows(by_threshold, "tree semantic distance by threshold")


def headings(
    *,
    gold: Path,
    pred: Path,
    encoder: str = "paraphrase-MiniLM-L6-v2",
    entities: Literal["auto", "flair", "rules"] = "auto",
    json: bool = False,
) -> None:
    """Score the headings of trees: heading soft recall and heading entity recall.

    Args:
        gold: As for `arena score tree`.
        pred: In the same format.
        encoder: Sentence encoder for headings; all-MiniLM-L6-v2 works offline.
        entities: Whether FLAIR finds entities for `her`: where it is at hand, always or never.
        json: Print the values per tree and their means as JSON.
    """
    scored = _score(gold, pred, _rule(encoder, entities), None)
    rows = [{name: row[name] for name in ("name", *HEADING_MEASURES) if name in row} for row in scored]
    if json:
        show_json({"encoder": encoder, "trees": rows, "mean": _mean(rows)})
        return
    show_rows([*rows, _mean(rows)] if len(rows) > 1 else rows, f"{pred.name} against {gold.name}, {encoder}")


def _rule(
    encoder: str,
    entities: Literal["auto", "flair", "rules"],
    threshold: Decimal = 0.8,
    distance: tuple[DistanceReading, ...] = (),
) -> "TreeScoreSettings":
    from tasks.organization.heading_vectors import label_encoder
    from tasks.organization.scores import TreeScoreSettings, choose_entities

    chosen = TreeScoreSettings(encoder=label_encoder(encoder), threshold=threshold, distance=distance)
    return chosen.model_copy(update={"entities": choose_entities(entities, chosen.entity_model)})


def _score(gold: Path, pred: Path, rule: "TreeScoreSettings", svg: Path | None) -> list[tables.Row]:
    from tasks.index.encoder import Encoder
    from tasks.organization.heading_vectors import LabelVectors
    from tasks.organization.scores import TreeScorer
    from tasks.organization.tree_files import read_trees
    from tasks.reports.treedrawing import draw_trees

    golden, built = read_trees(gold), read_trees(pred)
    if not golden.trees.keys() & built.trees.keys():
        named = ", ".join(sorted(built.trees)[:3])
        raise UsageError(f"no tree in {pred} has the name of a tree in {gold}; {pred.name} has {named}...")
    scorer = TreeScorer(LabelVectors(Encoder(rule.encoder).encode_short), rule)
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
    """Returns the mean of each column over the rows that have a value."""
    means: tables.Row = {"name": "mean"}
    for name in list(rows[0])[1:]:
        values = [value for row in rows if isinstance(value := row[name], int | float)]
        means[name] = sum(values) / len(values) if values else None
    return means
