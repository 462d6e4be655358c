"""Publishes what a flow run built as artifacts in the Prefect UI: counts, scores, lineage, a link to the report."""

import re
from collections.abc import Sequence

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.pipeline.capacity import plan_capacity
from flows.pipeline.changes import change_rows
from flows.pipeline.plans.steps import Step
from flows.pipeline.summaries import Row, count_rows, lineage_rows, people_rows, people_tree_rows, score_rows, tree_rows
from flows.pipeline.walk import Pipeline, Slots
from schemas.messages import plain
from schemas.settings import Resources
from tasks.metrics.ranking import RankingTask
from tasks.ranking.views import VIEWS
from tasks.store.editions import Editions
from tasks.store.store import Store


def artifact_key(*parts: str) -> str:
    """Returns a key that Prefect accepts: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def publish_build_artifact(pipeline: Pipeline, built: Slots) -> None:
    """Publishes the counts of each stage, the edition's lineage down to the release files, and a link to the report."""
    edition = pipeline.edition
    create_table_artifact(
        count_rows(pipeline.store, built),
        key=artifact_key("counts", edition),
        description=f"What each stage of edition {edition} read, kept and dropped",
    )
    slots = Editions(pipeline.store).load(edition).slots
    lines = [f"# Lineage of edition {escape(edition)}", "", markdown_table(lineage_rows(pipeline.store, slots))]
    if "report" in built:
        page = pipeline.store.folder(built["report"]) / "report.html"
        lines += ["", f"Report: {escape(str(page))}"]
        create_link_artifact(
            page.as_uri(), "report.html", artifact_key("report", edition), f"Report of edition {edition}"
        )
    create_markdown_artifact("\n".join(lines), key=artifact_key("lineage", edition))


def publish_plan(pipeline: Pipeline, steps: Sequence[Step], resources: Resources | None) -> None:
    """Publishes what a flow run will take: rows, disk, memory and hours of each stage."""
    plan = plan_capacity(pipeline.store, pipeline.edition, steps, resources or Resources())
    create_table_artifact(
        [stage._asdict() for stage in plan.stages],
        key=artifact_key("plan", pipeline.edition),
        description=f"Plan for edition {pipeline.edition}: {plan.summary()}",
    )


def publish_scores(pipeline: Pipeline, built: Slots, task: RankingTask) -> None:
    """Publishes the scores of the runs that were built, one table per kind of labels."""
    for labels in VIEWS[task].labels:
        create_table_artifact(
            people_rows(score_rows(pipeline.store, built, task, labels), task),
            key=artifact_key(task, labels, pipeline.edition),
            description=f"{task} on edition {pipeline.edition}, {labels} labels: mean over topics (95 % interval)",
        )


def publish_tree_scores(pipeline: Pipeline, built: Slots) -> None:
    """Publishes the scores of the trees that were built."""
    create_table_artifact(
        people_tree_rows(tree_rows(pipeline.store, built)),
        key=artifact_key("organization", pipeline.edition),
        description=f"organization on edition {pipeline.edition}: mean over topics with a mind-map",
    )


def publish_changes(store: Store, old: str, new: str) -> None:
    """Publishes what changed between two editions: the topics, and the scores on topics that stayed the same."""
    found = change_rows(store, old, new)
    lines = [
        f"# From edition {escape(old)} to {escape(new)}",
        "",
        "## Topics that changed",
        "",
        markdown_table(found.topics),
    ]
    lines += ["", "## Mean scores on topics that stayed the same, and on new topics", "", markdown_table(found.scores)]
    create_markdown_artifact("\n".join(lines), key=artifact_key("changes", new))


def escape(text: str) -> str:
    """Returns foreign text for Markdown: it is shown as it is, and makes no link, picture, emphasis, HTML or cell."""
    return re.sub(r"([\\`*_{}\[\]<>|~&!$@])|(?<=:)(?=//)|(?<=\bwww)(?=\.)", r"\\\1", plain(text))


def markdown_table(rows: list[Row]) -> str:
    """Returns rows as a Markdown table whose cells show their text as it is."""
    if not rows:
        return "(nothing)"
    names = list(rows[0])
    lines = [
        [escape(name) for name in names],
        ["---"] * len(names),
        *[[_cell(row[name]) for name in names] for row in rows],
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str | int | float | None) -> str:
    return "" if value is None else escape(str(value))
