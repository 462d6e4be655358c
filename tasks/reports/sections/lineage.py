"""Where the numbers come from: the datasets with their keys, digests, settings and dropped rows."""

from collections.abc import Mapping
from typing import Any

import orjson

from tasks.reports.blocks import Cell, Section, TableBlock
from tasks.reports.source import ReportSource


def sections(source: ReportSource) -> list[Section]:
    """Returns the section on dropped rows and the one on lineage."""
    return [
        Section(
            "What was left out",
            "Rows that a stage read and did not keep, with the reason.",
            (_dropped(source),),
        ),
        Section("Lineage and settings", "Each dataset names its inputs by digest.", (_datasets(source),), open=False),
    ]


def _dropped(source: ReportSource) -> TableBlock:
    rows: list[tuple[Cell, ...]] = []
    for dataset in source.lineage:
        manifest = dataset.manifest
        for reason, number in sorted(manifest.counts.dropped.items()):
            if number:
                rows.append((manifest.stage, reason, number, manifest.counts.read, manifest.key[:8]))
    return TableBlock(
        "left_out",
        "Dropped rows by stage and reason",
        ("Stage", "Reason", "Rows", "Of", "Dataset"),
        tuple(rows),
        "The dropped rows are stored beside each dataset, with their reasons.",
    )


def _datasets(source: ReportSource) -> TableBlock:
    rows: list[tuple[Cell, ...]] = []
    for dataset in source.lineage:
        manifest = dataset.manifest
        inputs = ", ".join(f"{name}={entry.digest[:8]}" for name, entry in sorted(manifest.inputs.items()))
        settings = orjson.dumps(_public(manifest.parameters), option=orjson.OPT_SORT_KEYS).decode()
        rows.append((manifest.stage, manifest.version, manifest.key[:12], manifest.digest[:12], inputs, settings))
    return TableBlock(
        "lineage",
        "Every dataset behind this page",
        ("Stage", "Version", "Key", "Digest", "Inputs", "Settings"),
        tuple(rows),
    )


def _public(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings without the contact of a system from outside, which is never shown."""
    system = parameters.get("system")
    shown = {"system": {name: told for name, told in system.items() if name != "contact"}} if system else {}
    return {**parameters, **shown}
