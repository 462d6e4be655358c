"""The step that writes an edition's report."""

from collections.abc import Collection

from flows.pipeline.plans.steps import Step, same_names
from tasks.reports.report import ReportSettings, report

REPORTED = {"run": "scores", "trees": "tree_scores"}
"""What a report shows, by the first word of the slot, once there are scores of it."""


def plan_report(settings: ReportSettings, slots: Collection[str]) -> list[Step]:
    """The report on everything among an edition's slots that has scores."""
    inputs = same_names("topics", "statistics") | (same_names("mindmaps") if "mindmaps" in slots else {})
    for kind, scored in REPORTED.items():
        for slot in sorted(slot for slot in slots if slot.startswith(f"{kind}/")):
            if (scores_slot := slot.replace(kind, scored, 1)) in slots:
                inputs |= {slot.replace("/", ":", 1): slot, scores_slot.replace("/", ":", 1): scores_slot}
    return [Step("report", report, settings, inputs)]
