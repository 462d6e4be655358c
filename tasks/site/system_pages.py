"""Pages of systems: what it is, what it scored, what it spent, and the command that makes the run again."""

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Any

import polars as pl

from schemas.settings import RunSettings
from schemas.tables.topics import TopicRow
from tasks.metrics.ranking import all_measures
from tasks.ranking.baseline import all_baselines
from tasks.reports.blocks import Cell, Estimate, Label, TableBlock
from tasks.reports.leaderboard import Leaderboard, measure_usage, to_estimate
from tasks.reports.sections import organization
from tasks.reports.source import ReportSource
from tasks.site.pages import Facts, Page, Part, SiteBlock, Text
from tasks.site.topic_data import TopicData
from tasks.site.topic_pages import HEADLINES
from tasks.store.dataset import Dataset

TREE_MEASURES = (organization.RANKED_BY, "hsr", "ted")


def reproducing_command(edition: str, settings: Mapping[str, Any]) -> str:
    """Returns the command that makes a run of a registered baseline again; its model is that of the environment.

    Args:
        edition: The edition's name.
        settings: Parameters of the run's dataset.
    """
    usual = RunSettings()
    words = ["arena", "run", "discovery", "--edition", edition]
    words += ["--baselines", settings["baseline"], "--retrievers", settings["retriever"], "--field", settings["field"]]
    for name in ("cutoff", "seed", "limit_topics", "sample_topics"):
        if settings.get(name) not in (None, getattr(usual, name)):
            words += [f"--{name.replace('_', '-')}", str(settings[name])]
    if settings.get("sample_topics"):
        words += ["--sample-systems", settings["baseline"]]
    if settings.get("model"):
        words += ["--model", settings["model"]["model"]]
    return join(words)


def made_facts(dataset: Dataset) -> dict[str, Cell]:
    """Returns where a dataset comes from: stage, key, digest, day."""
    manifest = dataset.manifest
    return {
        "Made by": f"stage {manifest.stage}, version {manifest.version}, on {manifest.started:%Y-%m-%d}",
        "Dataset": f"{manifest.stage}/{manifest.key}",
        "Digest of its files": manifest.digest[:16],
    }


def _mark_facts(label: Label) -> dict[str, Cell]:
    return {mark.word[:1].upper() + mark.word[1:]: mark.meaning for mark in label.marks}


def system_page(edition: str, board: Leaderboard, data: TopicData, topics: list[TopicRow], tag: str) -> Page:
    """Returns the page of a run."""
    label, run = board.system(tag).label, data.run(tag)
    settings = run.manifest.parameters
    again: tuple[SiteBlock, ...] = ()
    if settings.get("baseline") in all_baselines():
        again = (Text("The command that makes this run again", reproducing_command(edition, settings)),)
    parts = (
        Part("", (Facts(_facts(board, tag, run)), *again)),
        Part("Scores", (_scores(board, tag), _fields(board, tag))),
        Part("Topics", (_topics(data, topics, tag),)),
    )
    files = {"topics": {"TREC run": f"files/runs/{tag}.txt", "Parquet": f"files/runs/{tag}.parquet"}}
    return Page(f"systems/{tag}", label.text, f"A system: the run {tag}.", parts, files=files)


def _facts(board: Leaderboard, tag: str, run: Dataset) -> dict[str, Cell]:
    settings, usage = run.manifest.parameters, measure_usage(board.source, tag)
    about = all_baselines().get(settings.get("baseline", ""))
    place = board.order.index(tag) + 1 if tag in board.ranked else None
    model = settings.get("model")
    facts: dict[str, Cell] = {"What it does": about.description if about else None}
    facts["Place"] = f"{place} of {len(board.ranked)} by {all_measures()[board.headline].label}" if place else None
    facts |= _mark_facts(board.system(tag).label)
    facts |= {
        "Searches with": settings.get("retriever"),
        "over": str(settings.get("field", "-")).replace("_", " "),
        "Depth": settings.get("cutoff"),
        "Model": " of ".join(dict.fromkeys((model["model"], model["provider"]))) if model else "none",
        "USD a topic": usage.cost_usd,
        "Tokens a topic": usage.tokens,
        "Seconds a topic": usage.seconds,
        "Outcomes": _outcomes(run),
    }
    return {name: value for name, value in facts.items() if value is not None} | made_facts(run)


def _outcomes(run: Dataset) -> str:
    rows = pl.read_parquet(run.files("outcomes"))["outcome"].value_counts().sort("outcome").iter_rows()
    return ", ".join(f"{outcome} {count}" for outcome, count in rows)


def _scores(board: Leaderboard, tag: str) -> TableBlock:
    found = {(row.labels, row.measure): row for row in board.source.summaries if (row.tag, row.group) == (tag, "all")}
    rows = [
        (
            measure.label,
            *(to_estimate(found.get((labels, name))) for labels in ("graded", "influential")),
            measure.description.replace("`", ""),
        )
        for name, measure in sorted(all_measures().items(), key=lambda item: (item[1].order, item[0]))
    ]
    return TableBlock(
        "scores", "All measures", ("Measure", "All references", "Influential ones only", "What it says"), tuple(rows)
    )


def _fields(board: Leaderboard, tag: str) -> TableBlock:
    rows: dict[str, dict[str, Cell]] = {}
    counts: dict[str, int] = {}
    for row in board.source.summaries:
        if row.tag == tag and row.labels == "graded" and row.group != "all" and row.measure in HEADLINES:
            rows.setdefault(row.group, {})[row.measure] = to_estimate(row)
            counts[row.group] = row.topics
    table = tuple(
        (group.removeprefix("field:"), *(found.get(measure) for measure in HEADLINES), counts[group])
        for group, found in sorted(rows.items())
    )
    names = tuple(all_measures()[measure].label for measure in HEADLINES)
    return TableBlock("fields", "By field of study", ("Field of study", *names, "Topics"), table)


def _topics(data: TopicData, topics: list[TopicRow], tag: str) -> TableBlock:
    outcomes = {
        row[0]: row[1]
        for row in pl.read_parquet(data.run(tag).files("outcomes")).select("topic_id", "outcome").iter_rows()
    }
    counts = data.found.filter(tag=tag)["topic_id"].value_counts()
    found = dict(counts.iter_rows())
    values = [data.values.get((tag, measure), {}) for measure in HEADLINES]
    rows = [
        (
            Label(topic.title, page=f"topics/{topic.topic_id}"),
            *(of_measure.get(topic.topic_id) for of_measure in values),
            found.get(topic.topic_id, 0),
            topic.relevant,
            outcomes[topic.topic_id],
        )
        for topic in topics
        if topic.topic_id in outcomes
    ]
    names = tuple(all_measures()[measure].label for measure in HEADLINES)
    return TableBlock("topics", "Topic by topic", ("Topic", *names, "Found", "Relevant", "Outcome"), tuple(rows))


def builder_pages(edition: str, source: ReportSource) -> Iterator[Page]:
    """Yields the page of each system that builds mind-maps."""
    titles = {topic.topic_id: topic.title for topic in source.topics}
    for tag in organization.tree_tags(source):
        made, scored = organization.trees_of(source, tag), source.datasets[organization.PREFIX + tag]
        summaries = organization.summaries_of(source, tag)
        label = organization.describe_tree(source, tag, summaries).label
        rows = pl.read_parquet(scored.files()).filter(pl.col("measure").is_in(TREE_MEASURES))
        values = {
            (topic, measure): value for topic, measure, value in rows.select("topic_id", "measure", "value").iter_rows()
        }
        built = pl.read_parquet(made.files()).sort("topic_id")
        table = TableBlock(
            "topics",
            "Topic by topic",
            ("Topic", *map(organization.measure_label, TREE_MEASURES), "Nodes", "Levels", "Outcome", "Note"),
            tuple(
                (
                    Label(titles.get(row["topic_id"], str(row["topic_id"])), page=f"topics/{row['topic_id']}"),
                    *(values.get((row["topic_id"], measure)) for measure in TREE_MEASURES),
                    row["nodes"], row["depth"], row["outcome"], row["note"],
                )
                for row in built.iter_rows(named=True)
            ),
        )  # fmt: skip
        means = TableBlock(
            "scores",
            "All measures",
            ("Measure", "Mean"),
            tuple(
                (organization.measure_label(name), Estimate(row.mean, row.low, row.high, row.topics))
                for name in dict.fromkeys((*organization.LABELS, *summaries))
                if (row := summaries.get(name))
            ),
        )
        facts: dict[str, Cell] = {"Trees": tag} | _mark_facts(label)
        parts = (Part("", (Facts(facts | made_facts(made)),)), Part("Scores", (means,)), Part("Topics", (table,)))
        lead = f"A system that builds mind-maps, in edition {edition}."
        yield Page(f"builders/{tag}", label.text, lead, parts, way=(("Organization", "organization.html"),))
