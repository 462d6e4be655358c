"""The corpus in numbers beside the paper's, with Figure 4."""

from collections.abc import Iterator, Mapping

from tasks.reports.blocks import FigureBlock, Section, TableBlock
from tasks.reports.source import ReportSource, Statistics

FIGURES = {
    "figure4a": "(a) Documents by field of study",
    "figure4b": "(b) Surveys by field of study",
    "figure4c": "(c) Surveys whose coverage is at least x",
    "figure4d": "(d) Mind-maps: nodes by depth",
}


def sections(source: ReportSource) -> list[Section]:
    """Returns the sections on the corpus and on what was excluded from the topics."""
    found = source.statistics
    figures = tuple(FigureBlock(name, caption, _svg(source, name)) for name, caption in FIGURES.items())
    return [
        Section("Corpus", "This edition's numbers beside those that the paper reports.", (_checklist(found), *figures)),
        Section(
            "From surveys to topics",
            "How many accepted surveys became topics, and which of their references became relevant documents.",
            (
                _counts("topic_outcomes", "Accepted surveys by outcome", "Outcome", found["outcomes"]),
                _counts(
                    "references_dropped", "References that are not in the qrels", "Reason", found["dropped_references"]
                ),
                _counts("linking", "References of surveys by how they were linked", "Linked by", found["linking"]),
                *_agreement(found),
                _counts("date_precision", "Papers by the precision of their date", "Precision", found["dates"]),
                *_mistyped(found),
            ),
        ),
    ]


def _svg(source: ReportSource, name: str) -> str:
    return source.datasets["statistics"].path(f"{name}.svg").read_text()


def _checklist(found: Statistics) -> TableBlock:
    rows = tuple((item["item"], item["ours"], item["paper"], item.get("note")) for item in found["checklist"])
    return TableBlock(
        "checklist",
        "Numbers of the paper's sections 3 and 4",
        ("Item", "This edition", "Paper", "Differs from the paper"),
        rows,
        "The paper used the release of 6 February 2024. '-': not counted here, or not reported there.",
    )


def _agreement(found: Statistics) -> Iterator[TableBlock]:
    """Yields how far bibliographies and citations table agree on the surveys that both know."""
    numbers = found.get("agreement")
    if numbers is None:
        return
    names = {
        "surveys": "surveys that both know",
        "links": "links of either",
        "both": "links of both",
        "of_bibliography": "both, share of the bibliographies' links",
        "of_citations": "both, share of the citations table's links",
        "of_all": "both, share of all links",
    }
    yield TableBlock(
        "link_agreement",
        "Agreement of bibliographies and citations table",
        ("Over the surveys that both know", "Number"),
        tuple((name, numbers[key]) for key, name in names.items()),
        "The first table counts every link that was found; the settings say which of them count as references.",
    )


def _mistyped(found: Statistics) -> Iterator[TableBlock]:
    """Yields how many fields of the release's records were not read, where there are any."""
    if counts := found.get("mistyped"):
        yield TableBlock(
            "mistyped",
            "Fields of the release that had another type",
            ("Records", "Field", "Number"),
            tuple((stage, field, number) for stage, fields in counts.items() for field, number in fields.items()),
            "Each was read as if it were absent; its record was kept.",
        )


def _counts(name: str, caption: str, what: str, numbers: Mapping[str, int]) -> TableBlock:
    rows = tuple(sorted(numbers.items(), key=lambda item: (-item[1], item[0])))
    return TableBlock(name, caption, (what, "Number"), rows)
