"""The pictures of a leaderboard: recall by depth and by the age of the survey, cost against score, a heat map."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from tasks.metrics.ranking import all_measures
from tasks.reports.blocks import FigureBlock
from tasks.reports.leaderboard import Leaderboard, measure_usage
from tasks.site.charts import Axis, Series, draw_lines, draw_points
from tasks.site.heat import draw_heat_picture
from tasks.site.pages import Picture, Shelf
from tasks.site.topic_data import TopicData

DEPTHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)
"""Ranks at which recall is drawn."""

COLOURED = "The first eight runs are in colour."


def leaderboard_pictures(board: Leaderboard, data: TopicData) -> Iterator[FigureBlock]:
    """Yields the pictures of a task's leaderboard."""
    names = {tag: board.system(tag).label.text for tag in board.ranked}
    if board.task == "discovery":
        lines = [Series(names[tag], points) for tag, points in _recall_by_depth(board, data).items()]
        caption = f"Recall by depth: share of the relevant papers among the first k. {COLOURED}"
        yield FigureBlock("recall-by-depth", caption, draw_lines(lines, Axis("k"), Axis("Recall@k")))
    label = all_measures()[board.headline].label
    if years := _by_year(board):
        ticks, lines = years
        shown = [Series(names[tag], points) for tag, points in lines.items()]
        caption = f"{label} by the year of the survey: what systems find for older and for younger surveys. {COLOURED}"
        yield FigureBlock(f"{board.headline}-by-year", caption, draw_lines(shown, Axis("Year", ticks), Axis(label)))
    yield from _against_usage(board, names, label)


def _recall_by_depth(board: Leaderboard, data: TopicData) -> dict[str, list[tuple[float, float]]]:
    relevant = data.qrels.group_by("topic_id").len("relevant")
    topics = set(board.source.matrix(board.headline, "graded", board.ranked).topics)
    kept = data.found.filter(pl.col("topic_id").is_in(list(topics)) & pl.col("tag").is_in(board.ranked))
    shares = kept.join(relevant, on="topic_id").with_columns(share=1 / pl.col("relevant"))
    deepest = int(kept["rank"].cast(pl.Int64).max() or 1)  # pyright: ignore[reportArgumentType]
    lines: dict[str, list[tuple[float, float]]] = {tag: [] for tag in board.ranked}
    for depth in [k for k in DEPTHS if k <= deepest] or [1]:
        sums = dict(shares.filter(pl.col("rank") <= depth).group_by("tag").agg(pl.col("share").sum()).iter_rows())
        for tag, line in lines.items():
            line.append((float(depth), sums.get(tag, 0.0) / max(1, len(topics))))
    return lines


def _by_year(board: Leaderboard) -> tuple[list[str], dict[str, list[tuple[float, float]]]] | None:
    """Returns the years and a line for each run; None with a single year."""
    topics, values = board.source.matrix(board.headline, board.labels, board.ranked)
    year_of = {topic.topic_id: topic.horizon.year for topic in board.source.topics if topic.horizon}
    years = np.array([year_of.get(topic, 0) for topic in topics])
    ticks = sorted(set(years.tolist()) - {0})
    if len(ticks) < 2:
        return None
    means = [values[years == year].mean(axis=0) for year in ticks]
    lines = {
        tag: [(float(place), float(mean[column])) for place, mean in enumerate(means)]
        for column, tag in enumerate(board.ranked)
    }
    return list(map(str, ticks)), lines


def _against_usage(board: Leaderboard, names: dict[str, str], label: str) -> Iterator[FigureBlock]:
    """Yields a chart of score against cost, or against time where no run cost anything."""
    usages = {tag: measure_usage(board.source, tag) for tag in board.ranked}
    kinds = {"cost_usd": "USD a topic", "tokens": "Tokens a topic", "seconds": "Seconds a topic"}
    for kind, title in kinds.items():
        spent = {tag: getattr(usage, kind) or 0.0 for tag, usage in usages.items()}
        if not any(spent.values()):
            continue
        points = [
            Series(names[tag], [(spent[tag], row.mean)])
            for tag in board.ranked
            if (row := board.summaries[tag].get(board.headline)) and row.mean is not None
        ]
        caption = f"{label} against {title[0].lower()}{title[1:]}: better is higher and further left. {COLOURED}"
        if title.startswith("USD"):
            caption = caption.replace("uSD", "USD")
        yield FigureBlock(f"{board.headline}-{kind}", caption, draw_points(points, Axis(title), Axis(label)))
        if kind != "tokens":
            return


def write_heat_map(shelf: Shelf, board: Leaderboard) -> Picture:
    """Writes the heat map of topics by systems, and returns it as a block."""
    _, values = board.source.matrix(board.headline, board.labels, board.ranked)
    shelf.path(f"pictures/{board.headline}.png").write_bytes(draw_heat_picture(values))
    label = all_measures()[board.headline].label
    caption = (
        f"{label} of every run (rows, best first) on every topic (columns, by id): dark is 1, light is 0. The numbers "
        "are in the file of scores."
    )
    return Picture(caption, f"pictures/{board.headline}.png")
