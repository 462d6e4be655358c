"""Organization: Table 3 with intervals, beside the paper's, and gold and built trees side by side."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from schemas.mindmap import parse_tree
from schemas.tables.tree_scores import TREE_SUMMARIES, TreeSummaryRow, distance_measure
from tasks.organization.heading_vectors import LABEL_ENCODER
from tasks.ranking.views import count_fallbacks
from tasks.reports.blocks import Cell, Estimate, FigureBlock, Label, Section, TableBlock
from tasks.reports.leaderboard import PLACE, TIED
from tasks.reports.names import spoken_name
from tasks.reports.published import PUBLISHED_TREES
from tasks.reports.source import ReportSource
from tasks.reports.systems import FACETS, System, describe_system
from tasks.reports.treedrawing import draw_trees
from tasks.stats.intervals import Values
from tasks.stats.ties import corrected_p_values, join_places, tied_places
from tasks.store.dataset import Dataset

if TYPE_CHECKING:
    from tasks.organization.scores import TreeScoreSettings

MOST_DRAWN = 12
ENTITY_MEASURES = {"her": "HER", "her_fallback": "HER (rules)"}
PREFIX = "tree_scores:"

RANKED_BY, HEADLINE = "tsd_normalised", "TSD / nodes"
LABELS = {
    RANKED_BY: HEADLINE,
    "hsr": "HSR",
    **ENTITY_MEASURES,
    **{f"{measure}_no_gold": f"{label}: share of maps without entities" for measure, label in ENTITY_MEASURES.items()},
    "ted": "TED",
    "nodes": "Nodes",
    "gold_nodes": "Gold nodes",
    "depth": "Levels",
    "gold_depth": "Gold levels",
}
"""Measures of trees as tables call them; those of distance by similarity are named by `measure_label`."""

COUNTS = ("Covered", "Topics", "Heading encoder")
EXPLAINED = {
    HEADLINE: "Tree semantic distance divided by the number of nodes of both trees; 0 is equal, less is better.",
    "HSR": "Heading soft recall: how well gold headings are met by similar ones. Large trees get more: see the nodes.",
    "Nodes": "Nodes of the built trees, on average.",
    "Gold nodes": "Nodes of the authors' mind-maps.",
    "HER": "Share of the gold headings' named entities that the built tree has; only maps with entities count.",
    "HER (rules)": "The same with entities found by their spelling.",
    "TSD": "Tree semantic distance: operations that turn one tree into the other, where similar headings are equal.",
    "TED": "Tree edit distance with literal headings.",
    "Covered": "Topics for which the system built a tree.",
}

Summaries = Mapping[str, TreeSummaryRow]
"""A system's means by measure."""


def sections(source: ReportSource) -> list[Section]:
    """Returns the section on mind-maps and the folded one that shows them; none when no tree was scored."""
    tags = sorted(name.removeprefix(PREFIX) for name in source.datasets if name.startswith(PREFIX))
    if not tags:
        return []
    found = {tag: summaries_of(source, tag) for tag in tags}
    best = min(tags, key=lambda tag: (_mean(found[tag], RANKED_BY), tag))
    return [
        Section(
            "Information organization",
            "How close is a tree built from the references to the mind-map that the survey's authors drew?",
            (
                _table(source, found),
                _paper_table(),
                _sensitivity(found),
                _entities(found),
            ),
        ),
        Section(
            "Mind-maps, gold beside built",
            f"Trees of {best}, the system with the lowest normalised distance. Marked headings have a counterpart in "
            f"the other tree: equal, or more similar than {_settings(source, best).threshold:g}.",
            tuple(_drawings(source, best)),
            open=False,
        ),
    ]


def summaries_of(source: ReportSource, tag: str) -> Summaries:
    """Returns the means of a system by measure."""
    return {row.measure: row for row in TREE_SUMMARIES.rows(source.datasets[PREFIX + tag].table("tree_summaries"))}


def measure_label(measure: str) -> str:
    """Returns what tables call a measure of trees."""
    return LABELS.get(measure) or f"TSD at similarity above {measure.removeprefix('tsd_')}"


def _settings(source: ReportSource, tag: str) -> "TreeScoreSettings":
    from tasks.organization.scores import tree_scores  # needs the extra `organize`

    return source.datasets[PREFIX + tag].manifest.settings(tree_scores)


def _mean(found: Summaries, measure: str) -> float:
    mean = found[measure].mean if measure in found else None
    return float("inf") if mean is None else mean


def _estimate(found: Summaries, measure: str) -> Estimate:
    row = found.get(measure)
    return Estimate(row.mean, row.low, row.high, row.topics) if row else Estimate(None)


def _table(source: ReportSource, found: Mapping[str, Summaries]) -> TableBlock:
    """Ranks the systems by the distance for each node, which large and small trees can be compared by."""
    order = sorted(found, key=lambda tag: (_mean(found[tag], RANKED_BY), tag))
    tied = tied_places(range(len(order)), corrected_p_values(_values(source, order)))
    shown = [
        name
        for name in ENTITY_MEASURES
        if any(name in found[tag] and found[tag][name].mean is not None for tag in order)
    ]
    systems = [describe_tree(source, tag, found[tag]) for tag in order]
    rows: list[tuple[Cell, ...]] = []
    for place, tag in enumerate(order):
        settings, summaries = _settings(source, tag), found[tag]
        measures = ("hsr", "nodes", "gold_nodes", *shown, distance_measure(settings.threshold), "ted", "depth")
        counts = (summaries["hsr"].covered, summaries["hsr"].topics) if "hsr" in summaries else (0, 0)
        others = (_estimate(summaries, name) for name in measures)
        shared = join_places(tied[place]) if len(order) > 1 else None
        first = (place + 1, systems[place].label, _estimate(summaries, RANKED_BY), shared)
        rows.append((*first, *others, *counts, settings.encoder.model))
    entities = tuple(ENTITY_MEASURES[name] for name in shown)
    return TableBlock(
        "organization",
        "Table 3: distance of the built trees from the gold ones, with their sizes; less is better",
        (PLACE, "System", HEADLINE, TIED, "HSR", "Nodes", "Gold nodes", *entities, "TSD", "TED", "Levels", *COUNTS),
        tuple(rows),
        " ".join(_notes(source, list(found))),
        leaders={HEADLINE: frozenset({0, *(place - 1 for place in tied[0])})},
        drawn=frozenset({HEADLINE}),
        explained=EXPLAINED,
        facets={facet: tuple(s.facets[at] for s in systems) for at, facet in enumerate(FACETS)},
    )


def describe_tree(source: ReportSource, tag: str, summaries: Summaries) -> System:
    """Describes the system that built the trees of a tag of scores."""
    made = trees_of(source, tag)
    fallbacks = count_fallbacks(source.datasets[PREFIX + tag])
    topics = max((row.topics for row in summaries.values()), default=0)
    return describe_system(tag, made, page=f"builders/{tag}", fallbacks=fallbacks, of=topics)


def _values(source: ReportSource, tags: list[str]) -> Values:
    """Returns the distance for each node, a row a topic and a column a system."""
    columns: list[dict[int, float]] = []
    for tag in tags:
        files = source.datasets[PREFIX + tag].files()
        rows = pl.read_parquet(files).filter(measure=RANKED_BY).drop_nulls("value") if files else None
        columns.append({} if rows is None else dict(rows.select("topic_id", "value").iter_rows()))
    topics = sorted({topic for column in columns for topic in column})
    return np.array([[column.get(topic, np.nan) for column in columns] for topic in topics]).reshape(-1, len(tags))


def _notes(source: ReportSource, tags: list[str]) -> Iterator[str]:
    yield (
        "Means over topics with 95 % bootstrap intervals. Tied with: places of the systems that cannot be told apart "
        "(paired randomisation test over topics, Holm's correction). A topic without a tree has recalls of 0 and a "
        "distance of its gold map's size; a topic whose gold map has no entity has no HER. Distances grow with the "
        "size of the trees, and a lone node gets almost the gold map's size: compare them with the node counts and "
        "with the builder single, which always returns one node."
    )
    chosen = [_settings(source, tag) for tag in tags]
    thresholds = sorted({settings.threshold for settings in chosen})
    yield f"TSD at similarity above {', '.join(f'{t:g}' for t in thresholds)} (the paper does not say its threshold)."
    if taggers := sorted({settings.entity_model for settings in chosen if settings.entities == "flair"}):
        yield f"HER: FLAIR's tagger {', '.join(taggers)}."
    else:
        yield "HER is empty, because FLAIR or its model was not on the machine."
    yield "HER (rules) finds entities by their spelling: do not compare it with the paper's HER."
    for model in sorted({settings.encoder.model for settings in chosen} - {LABEL_ENCODER.model}):
        yield f"{model} stands in for {LABEL_ENCODER.model}: do not compare HSR and TSD with the paper's."
    maps = pl.read_parquet(source.datasets["mindmaps"].files())
    if by_hand := int((maps["source"] == "file").sum()):
        yield f"{by_hand} of {len(maps)} mind-maps come from a file of transcribed maps."


def _paper_table() -> TableBlock:
    rows = tuple(
        (_named(f"{row.builder}.{row.references}"), *map(Estimate, (row.soft_recall, row.entity_recall, row.distance)))
        for row in PUBLISHED_TREES
    )
    return TableBlock(
        "organization_paper",
        "The paper's Table 3 (1,884 mind-maps)",
        ("System", "HSR", "HER", "TSD"),
        rows,
        "Builder and source of its references; the paper gives neither node counts nor the threshold.",
    )


def _named(tag: str) -> Label:
    return Label(spoken_name(tag), tag)


def _sensitivity(found: Mapping[str, Summaries]) -> TableBlock:
    distances = sorted({m for summaries in found.values() for m in summaries if re.fullmatch(r"tsd_[\d.]+", m)})
    rows = tuple((_named(tag), *(_estimate(summaries, m) for m in distances)) for tag, summaries in found.items())
    return TableBlock(
        "organization_thresholds",
        "Tree semantic distance by the similarity above which headings match",
        ("System", *(distance.removeprefix("tsd_") for distance in distances)),
        rows,
    )


def _entities(found: Mapping[str, Summaries]) -> TableBlock:
    rows: list[tuple[Cell, ...]] = []
    for tag, summaries in found.items():
        for measure, label in ENTITY_MEASURES.items():
            share = summaries.get(f"{measure}_no_gold")
            if share is None or share.mean is None:
                continue
            recall = summaries.get(measure)
            mean = recall.mean if recall and recall.mean is not None else 0.0
            counted = recall.topics if recall else 0
            rows.append(
                (
                    _named(tag),
                    label,
                    _estimate(summaries, measure),
                    counted,
                    share.mean,
                    share.mean + (1 - share.mean) * mean,
                )
            )
    return TableBlock(
        "organization_entities",
        "Entity recall, and the topics that have none",
        ("System", "Measure", "Mean", "Topics", "Topics without gold entity, share", "Mean as STORM counts"),
        tuple(rows),
        "STORM's code gives 1 to every tree where the gold map has no entity; the last column is the mean with these "
        "topics counted so.",
    )


def _drawings(source: ReportSource, tag: str) -> Iterator[FigureBlock]:
    return islice(
        draw_topics(source.datasets["mindmaps"], trees_of(source, tag), source.datasets[PREFIX + tag]), MOST_DRAWN
    )


def trees_of(source: ReportSource, tag: str) -> Dataset:
    """Returns the trees that the scores of a tag are of."""
    return source.datasets[f"trees:{tag.removesuffix(_settings(source, tag).mark)}"]


def tree_tags(source: ReportSource) -> list[str]:
    """Returns the scored systems, the one with the lowest distance for each node first."""
    found = {tag: summaries_of(source, tag) for tag in source.under(PREFIX.removesuffix(":"))}
    return sorted(found, key=lambda tag: (_mean(found[tag], RANKED_BY), tag))


def drawings_by_topic(source: ReportSource, systems: int = 2) -> dict[int, list[FigureBlock]]:
    """Returns drawings of gold and built trees by topic, those of the first systems.

    Args:
        source: The edition's datasets.
        systems: How many systems are drawn, the best first.
    """
    found: dict[int, list[FigureBlock]] = {}
    for tag in tree_tags(source)[:systems]:
        drawn = draw_topics(source.datasets["mindmaps"], trees_of(source, tag), source.datasets[PREFIX + tag])
        for figure in drawn:
            topic = int(figure.name.rpartition("-")[2])
            found.setdefault(topic, []).append(replace(figure, caption=f"Gold beside the tree of {spoken_name(tag)}"))
    return found


def draw_topics(mindmaps: Dataset, trees: Dataset, scores: Dataset, topic: int | None = None) -> Iterator[FigureBlock]:
    """Draws gold and built trees side by side, topics in ascending order; skips topics without a built tree.

    Args:
        mindmaps: Gold maps.
        trees: Dataset of stage `organize`.
        scores: Of stage `tree_scores`, of these trees.
        topic: The only one to draw; None: all.
    """
    gold = pl.read_parquet(mindmaps.files()).select("topic_id", "title", gold="tree")
    built = pl.read_parquet(trees.files()).filter(outcome="scored")
    matches = pl.read_parquet(scores.files("heading_matches")).filter(side="gold")
    pairs = built.join(gold, on="topic_id").sort("topic_id")
    for row in pairs.filter(topic_id=topic).iter_rows(named=True) if topic else pairs.iter_rows(named=True):
        matching = dict(matches.filter(topic_id=row["topic_id"]).select("label", "match").iter_rows())
        svg = draw_trees(parse_tree(row["gold"]), parse_tree(row["tree"]), matching)
        yield FigureBlock(f"mindmap-{row['topic_id']}", row["title"], svg, wide=True)
