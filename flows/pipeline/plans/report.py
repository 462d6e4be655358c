"""The step that writes an edition's report."""

from collections.abc import Collection

from flows.pipeline.plans.steps import Step, same_names
from tasks.reports.report import ReportSettings, report

REPORTED = {"run": "scores", "trees": "tree_scores"}
"""The slots that a report shows once they are scored, with the slots of their scores (first word of each)."""


def plan_report(settings: ReportSettings, slots: Collection[str]) -> list[Step]:
    """Returns the step that writes the report on every scored run and tree of an edition."""
    inputs = same_names("topics", "statistics") | (same_names("mindmaps") if "mindmaps" in slots else {})
    inputs |= {slot.replace("/", ":", 1): slot for slot in slots if slot.startswith("ann_recall/")}
    for kind, scored in REPORTED.items():
        for slot in sorted(slot for slot in slots if slot.startswith(f"{kind}/")):
            if (scores_slot := slot.replace(kind, scored, 1)) in slots:
                inputs |= {slot.replace("/", ":", 1): slot, scores_slot.replace("/", ":", 1): scores_slot}
    return [Step("report", report, settings, inputs)]
