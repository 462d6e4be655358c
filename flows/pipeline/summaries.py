"""Table rows about an edition for people to read: counts, scores, lineage."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schemas.manifest import Ref
from tasks.store.store import Store

if TYPE_CHECKING:
    from tasks.metrics.ranking import Labels, RankingTask

Cell = str | int | float | None

Row = dict[str, Cell]


def count_rows(store: Store, slots: Mapping[str, Ref]) -> list[Row]:
    """Returns what each stage read, kept and dropped; `dropped` names the reasons."""
    rows: list[Row] = []
    for slot, ref in slots.items():
        manifest = store.open(ref).manifest
        counts = manifest.counts
        dropped = ", ".join(f"{reason} {number:,}" for reason, number in sorted(counts.dropped.items()) if number)
        rows.append(
            {
                "slot": slot,
                "read": counts.read,
                "kept": counts.kept,
                "dropped": dropped,
                "failed": counts.failed,
                "seconds": round(manifest.seconds, 1),
                "MB": round(sum(file.size for file in manifest.files) / 1e6, 1),
            }
        )
    return rows


def score_rows(store: Store, slots: Mapping[str, Ref], task: "RankingTask", labels: "Labels" = "graded") -> list[Row]:
    """Returns the means over all topics of each `scores/` slot, with the bounds of their 95 % intervals.

    Args:
        store: Store of the datasets.
        slots: Slots of an edition; only `scores/` slots are read.
        task: The task whose measures are shown.
        labels: `graded` or `influential`.
    """
    return [_score_row(store, ref, task, labels) for slot, ref in slots.items() if slot.startswith("scores/")]


def _score_row(store: Store, ref: Ref, task: "RankingTask", labels: "Labels") -> Row:
    import polars as pl

    from tasks.metrics.ranking import column_labels

    summaries = pl.read_parquet(store.open(ref).files("summaries"))
    rows = {row["measure"]: row for row in summaries.filter(group="all", labels=labels).iter_rows(named=True)}
    first = next(iter(rows.values()))
    shown: Row = {
        "run": first["tag"],
        "topics": first["topics"],
        "covered": first["covered"],
        "fallbacks": first["fallbacks"],
    }
    for measure in column_labels(task):
        mean, low, high = (rows.get(measure, {}).get(name) for name in ("mean", "low", "high"))
        shown |= {measure: mean, f"{measure}_low": low, f"{measure}_high": high}
    return shown


TREE_MEASURES: Mapping[str, str] = {
    "hsr": "HSR",
    "her": "HER",
    "her_no_gold": "no gold entity",
    "her_fallback": "HER (rules)",
    "her_fallback_no_gold": "no gold entity (rules)",
    "nodes": "nodes",
    "gold_nodes": "gold nodes",
}
"""Measures of built trees, with their usual names."""


def tree_rows(store: Store, slots: Mapping[str, Ref]) -> list[Row]:
    """Returns the means over topics of each `tree_scores/` slot, for the measures that were computed."""
    return [_tree_row(store, ref) for slot, ref in slots.items() if slot.startswith("tree_scores/")]


def _tree_row(store: Store, ref: Ref) -> Row:
    import polars as pl

    from schemas.tables.tree_scores import distance_measure
    from tasks.organization.scores import tree_scores  # needs the extra `organize`
    from tasks.ranking.views import count_fallbacks

    dataset = store.open(ref)
    summaries = pl.read_parquet(dataset.files("tree_summaries"))
    rows = {row["measure"]: row for row in summaries.iter_rows(named=True)}
    measures = dict(TREE_MEASURES) | {distance_measure(dataset.manifest.settings(tree_scores).threshold): "TSD"}
    first = next(iter(rows.values()), {"tag": "(no topic has a mind-map)", "topics": 0, "covered": 0})
    counts = {name: first[name] for name in ("topics", "covered")} | {"fallbacks": count_fallbacks(dataset)}
    return {"system": first["tag"], **counts} | {
        label: rows[measure]["mean"] for measure, label in measures.items() if measure in rows
    }


def people_tree_rows(scores: Sequence[Row]) -> list[Row]:
    """Returns rows of `tree_rows` with the systems marked that used fallbacks on more than a share of the topics."""
    from tasks.ranking.views import marked

    return [
        {"system": marked(str(row["system"]), int(row["fallbacks"] or 0), int(row["topics"] or 0))}
        | {name: value for name, value in row.items() if name not in ("system", "fallbacks")}
        for row in scores
    ]


def answer_rows(store: Store, slots: Mapping[str, Ref]) -> list[Row]:
    """Returns the share of questions answered correctly of each `airqa/scores/` slot, with its 95 % interval."""
    import polars as pl

    found = [store.open(ref) for slot, ref in slots.items() if slot.startswith("airqa/scores/")]
    rows = pl.concat([pl.read_parquet(dataset.files("summaries")).filter(group="all") for dataset in found])
    return rows.drop("group").to_dicts()


def people_rows(scores: Sequence[Row], task: "RankingTask") -> list[Row]:
    """Returns score rows with one cell per measure: `mean (low-high)`."""
    from tasks.metrics.ranking import column_labels
    from tasks.ranking.views import marked

    return [
        {"run": marked(str(row["run"]), int(row["fallbacks"] or 0), int(row["topics"] or 0))}
        | {name: row[name] for name in ("topics", "covered")}
        | {label: _interval(row, measure) for measure, label in column_labels(task).items()}
        for row in scores
    ]


def _interval(row: Row, measure: str) -> str:
    mean, low, high = row[measure], row[f"{measure}_low"], row[f"{measure}_high"]
    return "-" if mean is None else f"{mean:.3f} ({low:.3f}-{high:.3f})"


def lineage_rows(store: Store, slots: Mapping[str, Ref]) -> list[Row]:
    """Returns the datasets and release files that each slot was made from."""
    rows: list[Row] = []
    for slot, ref in slots.items():
        manifest = store.open(ref).manifest
        sources = [
            f"{name}: {entry.stage}/{entry.key[:8]}"
            if isinstance(entry, Ref)
            else f"{name}: release {entry.release} {entry.dataset} ({entry.files} files, {entry.digest[:8]})"
            for name, entry in manifest.inputs.items()
        ]
        rows.append(
            {
                "slot": slot,
                "dataset": f"{ref.stage}/{ref.key[:8]}",
                "version": manifest.version,
                "digest": ref.digest[:12],
                "from": "; ".join(sources),
            }
        )
    return rows


def slot_refs(slots: Mapping[str, Ref]) -> dict[str, dict[str, str]]:
    """Returns slots as plain values for JSON."""
    return {slot: ref.model_dump() for slot, ref in slots.items()}
