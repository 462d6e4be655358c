"""Fields of a release that have another type are counted where people look: in the statistics and in the report."""

import json
from pathlib import Path

from tasks.reports.blocks import TableBlock
from tasks.reports.sections.corpus import sections
from tasks.reports.source import ReportSource
from tasks.store.editions import Editions
from tasks.store.store import Store

COUNTS = {
    "abstract_records": {"abstract": 1},
    "citation_records": {"isinfluential": 1},
    "full_texts": {"body": 1},
    "paper_records": {"year": 1},
}
"""The fields that the first file of each dataset of a synthetic release gets wrong."""


def test_mistyped_fields_are_in_the_statistics_and_the_report(built: Path) -> None:
    store = Store(built / "store")
    slots = Editions(store).load("2026-01-06").slots
    source = ReportSource({name: store.open(slots[name]) for name in ("topics", "statistics")})
    found = json.loads(source.datasets["statistics"].path("statistics.json").read_bytes())
    assert found["mistyped"] == COUNTS
    blocks = {block.name: block for section in sections(source) for block in section.blocks}
    table = blocks["mistyped"]
    assert isinstance(table, TableBlock)
    assert table.rows == tuple((stage, field, 1) for stage, fields in COUNTS.items() for field in fields)
