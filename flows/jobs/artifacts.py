"""What a flow run leaves in the Prefect UI: counts, scores, lineage, where the report is."""

import re

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.pipeline.changes import change_rows
from flows.pipeline.summaries import Row, count_rows, lineage_rows, people_rows, score_rows, tree_rows
from flows.pipeline.walk import Pipeline, Slots
from tasks.metrics.ranking import RankingTask
from tasks.ranking.views import VIEWS
from tasks.store.editions import Editions
from tasks.store.store import Store


def artifact_key(*parts: str) -> str:
    """A key as Prefect wants it: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def leave_built(pipeline: Pipeline, built: Slots) -> None:
    """Leaves the counts of what was built, the edition's lineage down to the release files, and the report's place."""
    edition = pipeline.edition
    create_table_artifact(
        count_rows(pipeline.store, built),
        key=artifact_key("counts", edition),
        description=f"What each stage of edition {edition} did with what it read",
    )
    slots = Editions(pipeline.store).load(edition).slots
    lines = [f"# Lineage of edition {edition}", "", markdown_table(lineage_rows(pipeline.store, slots))]
    if "report" in built:
        page = pipeline.store.folder(built["report"]) / "report.html"
        lines += ["", f"Report: `{page}`"]
        create_link_artifact(
            page.as_uri(), "report.html", artifact_key("report", edition), f"Report of edition {edition}"
        )
    create_markdown_artifact("\n".join(lines), key=artifact_key("lineage", edition))


def leave_scores(pipeline: Pipeline, built: Slots, task: RankingTask) -> None:
    """Leaves the scores of the runs that were built, a table for each kind of labels."""
    for labels in VIEWS[task].labels:
        create_table_artifact(
            people_rows(score_rows(pipeline.store, built, task, labels), task),
            key=artifact_key(task, labels, pipeline.edition),
            description=f"{task} on edition {pipeline.edition}, {labels} labels: mean over topics (95 % interval)",
        )


def leave_trees(pipeline: Pipeline, built: Slots) -> None:
    """Leaves the scores of the trees that were built."""
    create_table_artifact(
        tree_rows(pipeline.store, built),
        key=artifact_key("organization", pipeline.edition),
        description=f"organization on edition {pipeline.edition}: mean over topics with a mind-map",
    )


def leave_changes(store: Store, old: str, new: str) -> None:
    """Leaves what changed from one edition to another: topics, and scores of the topics that are the same."""
    found = change_rows(store, old, new)
    lines = [f"# From edition {old} to {new}", "", "## Topics that are not the same", "", markdown_table(found.topics)]
    lines += ["", "## Means on the topics that are the same, and on new ones", "", markdown_table(found.scores)]
    create_markdown_artifact("\n".join(lines), key=artifact_key("changes", new))


def markdown_table(rows: list[Row]) -> str:
    """Rows as a Markdown table, cells escaped."""
    if not rows:
        return "(nothing)"
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *[[_cell(row[name]) for name in names] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str | int | float | None) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
