"""Publishes what a flow run built as artifacts in the Prefect UI: the report, counts, scores, changes, lineage."""

from collections.abc import Sequence

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.jobs.artifact_texts import artifact_key, escape, markdown_table, rounded
from flows.jobs.runs import finish_run
from flows.pipeline.capacity import plan_capacity
from flows.pipeline.changes import change_rows
from flows.pipeline.plans.steps import Step
from flows.pipeline.site import SITE_URL, report_link, site_url
from flows.pipeline.summaries import count_rows, lineage_rows, people_rows, people_tree_rows, score_rows, tree_rows
from flows.pipeline.walk import Pipeline, Slots
from schemas.settings import Resources
from tasks.metrics.ranking import RankingTask, column_labels
from tasks.ranking.views import VIEWS
from tasks.store.editions import Editions
from tasks.store.store import Store


def publish_results(
    pipeline: Pipeline, built: Slots, task: RankingTask | None = None, *, trees: bool = False, before: str | None = None
) -> None:
    """Publishes what a run has built: one page with the report, counts, scores and changes, and a table of each.

    Args:
        pipeline: Of the edition.
        built: The slots that the run visited.
        task: The task whose scores are shown; None: no scores of runs.
        trees: Show the scores of trees.
        before: The edition to compare with; None: none.
    """
    edition, store = pipeline.edition, pipeline.store
    tables = [("counts", f"What each stage of edition {edition} read, kept and dropped", count_rows(store, built))]
    if task:
        for labels in VIEWS[task].labels:
            title = f"{task} on edition {edition}, {labels} labels: mean over topics (95 % interval)"
            rows = people_rows(score_rows(store, built, task, labels), task)
            tables.append((f"{task}-{labels}", title, rows))
    if trees:
        title = f"organization on edition {edition}: mean over topics with a mind-map"
        tables.append(("organization", title, people_tree_rows(tree_rows(store, built))))
    page = [f"# Edition {escape(edition)}", "", *_link_report(pipeline, built)]
    for key, title, rows in tables:
        create_table_artifact(rows, key=artifact_key(key, edition), description=title)
        page += ["", f"## {escape(title)}", "", markdown_table(rows)]
    if before:
        page += ["", *publish_changes(store, before, edition)]
    lineage = markdown_table(lineage_rows(store, Editions(store).load(edition).slots))
    lineage = f"# Lineage of edition {escape(edition)}\n\n{lineage}"
    create_markdown_artifact(lineage, key=artifact_key("lineage", edition))
    create_markdown_artifact("\n".join(page), artifact_key("edition", edition), "What this run has built")
    finish_run()


def _link_report(pipeline: Pipeline, built: Slots) -> list[str]:
    """Publishes a link to the report, if one was written, and returns it for the page."""
    if "report" not in built:
        return []
    edition, path = pipeline.edition, pipeline.store.folder(built["report"]) / "report.html"
    site = site_url()
    if site is None:
        return [f"Report: {escape(str(path))} (to get a link here: arena serve --pages, and its address in {SITE_URL})"]
    link = report_link(site, edition)
    create_link_artifact(link, "Report", artifact_key("report", edition), f"Report of edition {edition}")
    return [f"[Report of edition {escape(edition)}]({link})"]


def publish_plan(pipeline: Pipeline, steps: Sequence[Step], resources: Resources) -> None:
    """Publishes what a flow run will take: rows, disk, memory and hours of each stage."""
    plan = plan_capacity(pipeline.store, pipeline.edition, steps, resources)
    create_table_artifact(
        rounded([stage._asdict() for stage in plan.stages]),
        key=artifact_key("plan", pipeline.edition),
        description=f"Plan for edition {pipeline.edition}: {plan.summary()}",
    )


def publish_changes(store: Store, old: str, new: str) -> list[str]:
    """Publishes what changed between two editions: the topics, and the scores on topics that stayed the same.

    Returns:
        The lines of the artifact.
    """
    found = change_rows(store, old, new)
    labels = {name: label for task in VIEWS for name, label in column_labels(task).items()}
    scores = [row | {"measure": labels.get(str(row["measure"]), row["measure"])} for row in rounded(found.scores)]
    lines = [f"## From edition {escape(old)} to {escape(new)}", "", "### Topics that changed", ""]
    lines += [
        markdown_table(rounded(found.topics)),
        "",
        "### Mean scores on topics that stayed the same, and on new topics",
    ]
    lines += ["", markdown_table(scores)]
    create_markdown_artifact("\n".join(lines), key=artifact_key("changes", new))
    return lines
