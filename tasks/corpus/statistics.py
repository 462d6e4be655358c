"""Stage `statistics`: numbers of an edition beside those of the paper, and the paper's Figure 4.

Scale: papers and documents are only counted, in DuckDB. Surveys, references and topics are small, and so is the graph
of surveys that cite each other, which is held in memory.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import duckdb
import networkx as nx
import orjson

from schemas.mindmap import Shape
from schemas.settings import Settings
from schemas.tables.dropped_references import DROPPED_REFERENCES
from tasks.corpus.duckdb_session import limits_of, open_session
from tasks.release.decode import MISTYPED
from tasks.store.dataset import Dataset
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

TOP = 5
"""Number of fields of study that the paper shows."""

RECORDS = {"paper_records", "abstract_records", "citation_records", "full_texts"}
"""Inputs that were read from a release's files, and count the fields that had another type."""

COUNTS = """
    SELECT count(*) AS papers, count(abstract) AS with_abstract, count(*) FILTER (has_full_text) AS with_full_text,
        (SELECT count(*) FROM documents) AS documents,
        (SELECT count(*) FROM surveys) AS candidates,
        (SELECT count(*) FROM surveys WHERE accepted) AS accepted
    FROM papers
"""
AGREEMENT = """
    WITH links AS (FROM refs WHERE cited_id IS NOT NULL), compared AS (
        SELECT survey_id FROM links GROUP BY ALL HAVING bool_or(in_bibliography) AND bool_or(in_citations)
    )
    SELECT count(DISTINCT survey_id) AS surveys, count(*) AS links,
        count(*) FILTER (in_bibliography AND in_citations) AS both,
        count(*) FILTER (in_bibliography AND in_citations) / nullif(count(*) FILTER (in_bibliography), 0)
            AS of_bibliography,
        count(*) FILTER (in_bibliography AND in_citations) / nullif(count(*) FILTER (in_citations), 0) AS of_citations,
        count(*) FILTER (in_bibliography AND in_citations) / nullif(count(*), 0) AS of_all
    FROM links SEMI JOIN compared USING (survey_id)
"""
"""Links of the surveys that both sources know, and the shares of them that both have."""

GROUPS = "SELECT {column}, count(*) FROM {source} GROUP BY ALL ORDER BY count(*) DESC, {column}"
FILTERED = "CREATE VIEW filtered AS FROM topics WHERE outcome NOT IN ('no_references', 'none_accessible')"
"""Surveys that pass the paper's two filters: those behind its numbers 7,952 and 17.18 %."""

PER_TOPIC = """
    SELECT sum({column})::BIGINT AS total, min({column}) AS least, median({column}) AS median, avg({column}) AS mean,
        max({column}) AS most
    FROM topics WHERE outcome = 'kept'
"""
CITING_SURVEYS = """
    WITH accepted AS (SELECT corpus_id FROM surveys WHERE accepted)
    SELECT survey_id, cited_id FROM refs SEMI JOIN accepted ON refs.cited_id = accepted.corpus_id WHERE refs.used
"""


class StatisticsSettings(Settings):
    """No settings."""


class CheckItem(NamedTuple):
    """A number of this edition beside the paper's; None where either does not have it. Shares are in [0, 1].

    `note` says how this edition's number is defined where the paper's definition is another one; otherwise it is empty.
    """

    item: str
    ours: float | None
    paper: float | None
    note: str = ""


@stage("statistics", version=4, settings=StatisticsSettings, after="mindmaps")
def statistics(work: Workspace[StatisticsSettings]) -> None:
    """Writes `statistics.json` and `figure4a.svg` to `figure4d.svg`.

    Inputs: `papers`, `documents`, `surveys`, `references`, `topics`; where the edition has them `mindmaps`, transcribed
    or extracted, and the record stages, whose counts of mistyped fields are stated.

    Deviates: the paper has no graph of surveys that cite each other. No other stage follows citations, so cycles are
    only counted here.

    Source: section 4 and Figure 4 of the ResearchArena paper.
    """
    for shard in work.pending(["statistics"]):
        with shard, open_session(limits_of(work), shard.name) as db:
            for name in ("papers", "documents", "surveys", "topics"):
                work.dataset(name).relation(db).create_view(name)
            work.dataset("references").relation(db).create_view("refs")
            work.dataset("topics").relation(db, DROPPED_REFERENCES.name).create_view("dropped")
            db.execute(FILTERED)
            coverages = _coverages(db)
            shapes = _shapes(work.dataset("mindmaps")) if "mindmaps" in work.inputs else []
            found = _describe(db, coverages, shapes)
            checklist = [item._asdict() for item in _checklist(found, _read_notes(work))]
            found = {"checklist": checklist, **found, "mistyped": _mistyped(work)}
            shard.file("statistics.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
            _draw(shard, found, coverages, shapes)


def _shapes(mindmaps: Dataset) -> list[Shape]:
    columns = mindmaps.table(columns=["nodes", "depth"]).columns
    return [Shape(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _describe(
    db: duckdb.DuckDBPyConnection, coverages: dict[str, list[float]], shapes: Sequence[Shape]
) -> dict[str, Any]:
    """Returns all numbers of the edition, as in `statistics.json`."""
    overall = [row[0] for row in db.sql("SELECT coverage FROM filtered").fetchall()]
    return {
        "counts": _row(db, COUNTS),
        "dates": _groups(db, "date_precision", "papers"),
        "fields_of_study": {source: _fields(db, source) for source in ("documents", "surveys")},
        "outcomes": _groups(db, "outcome", "topics"),
        "linking": _groups(db, "linking", "refs"),
        "linking_used": _groups(db, "linking", "(FROM refs WHERE used)"),
        "agreement": _row(db, AGREEMENT),
        "dropped_references": _groups(db, "reason", "dropped"),
        "coverage": {
            "surveys": len(overall),
            "at_least_half": _share_at_half(overall),
            "by_field": {
                field: {"surveys": len(values), "at_least_half": _share_at_half(values)}
                for field, values in coverages.items()
            },
        },
        "relevant": _row(db, PER_TOPIC.format(column="relevant")),
        "influential": _row(db, PER_TOPIC.format(column="influential")),
        "survey_graph": describe_graph(db.sql(CITING_SURVEYS).fetchall()),
        "mindmaps": describe_maps(shapes),
    }


def describe_graph(citations: Iterable[tuple[int, int]]) -> dict[str, float]:
    """Returns size, density, components and cycles of the graph of surveys that cite each other.

    Args:
        citations: (citing, cited) pairs; cycles and self-citations are allowed.
    """
    graph: nx.DiGraph[Any] = nx.DiGraph(citations)
    connected = [len(part) for part in nx.weakly_connected_components(graph)]
    cyclic = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    return {
        "surveys": len(graph),
        "citations": graph.number_of_edges(),
        "density": nx.density(graph),
        "components": len(connected),
        "largest_component": max(connected, default=0),
        "self_citations": nx.number_of_selfloops(graph),
        "cycles": len(cyclic),
        "surveys_in_cycles": sum(map(len, cyclic)),
    }


def describe_maps(shapes: Sequence[Shape]) -> dict[str, Any]:
    """Returns the number of mind-maps, their nodes and levels, and the line of Figure 4(d); None if there are none."""
    from tasks.corpus.plots import fit_complexity

    line = fit_complexity(shapes)
    depths = Counter(shape.depth for shape in shapes)
    return {
        "maps": len(shapes),
        "nodes": _spread([shape.nodes for shape in shapes]),
        "depth": _spread([shape.depth for shape in shapes]),
        "by_depth": {str(depth): depths[depth] for depth in sorted(depths)},
        "three_to_seven_levels": sum(3 <= shape.depth <= 7 for shape in shapes) / len(shapes) if shapes else None,
        "slope": line.slope if line else None,
        "intercept": line.intercept if line else None,
    }


def _spread(values: Sequence[int]) -> dict[str, float] | None:
    if not values:
        return None
    return {"least": min(values), "median": median(values), "mean": fmean(values), "most": max(values)}


class _Notes(NamedTuple):
    """How this edition's documents, surveys and references are defined, empty where they are the paper's."""

    documents: str
    surveys: str
    references: str


def _read_notes(work: Workspace[StatisticsSettings]) -> _Notes:
    """Returns the notes on the checklist's numbers from the settings that the inputs were built with."""
    made = {slot: work.dataset(slot).manifest.parameters for slot in ("documents", "surveys", "references")}
    scopes = {"all": "among all papers", "references": "among papers with a bibliography or citations"}
    surveys = [scopes.get(made["surveys"].get("scope", ""), "")]
    surveys += ["in any language"] * (made["surveys"].get("english") is False)
    surveys += ["selected by another rule than GPT-4"] * (made["surveys"].get("selector") != "model")
    links = {"citations": "linked by the citations table", "both": "linked by bibliography or citations table"}
    return _Notes(
        "with title and abstract" if made["documents"].get("corpus") == "abstract" else "",
        ", ".join(filter(None, surveys)),
        links.get(made["references"].get("source", ""), ""),
    )


def _mistyped(work: Workspace[StatisticsSettings]) -> dict[str, dict[str, int]]:
    """Returns for each record stage how often a field had another type and became null, most often first."""
    found: dict[str, dict[str, int]] = {}
    for name in sorted(RECORDS & work.inputs.keys()):
        notes = work.dataset(name).manifest.counts.notes
        fields = {
            note.removeprefix(MISTYPED): int(number) for note, number in notes.items() if note.startswith(MISTYPED)
        }
        if fields:
            found[name] = dict(sorted(fields.items(), key=lambda field: (-field[1], field[0])))
    return found


def _checklist(found: dict[str, Any], notes: _Notes) -> list[CheckItem]:
    counts, outcomes = found["counts"], found["outcomes"]
    candidates, accepted = counts["candidates"], counts["accepted"]
    coverage = ", ".join(filter(None, (notes.documents, notes.references)))
    filtered = ", ".join(filter(None, (notes.surveys, coverage)))
    return [
        CheckItem("papers in the release", counts["papers"], None),
        CheckItem("English papers in S2ORC", None, 81_100_000, "a release does not tell them from the other papers"),
        CheckItem("papers with full text", counts["with_full_text"], 12_000_000),
        CheckItem("full texts, share of the English papers in S2ORC", None, 0.148),
        CheckItem("documents (the corpus)", counts["documents"], 12_000_000, notes.documents),
        CheckItem("titles with 'survey'", candidates, None, notes.surveys),
        CheckItem(
            "rejected by the selector, share", 1 - accepted / candidates if candidates else None, 0.85, notes.surveys
        ),
        CheckItem("accepted by the selector", accepted, 9_993, notes.surveys),
        CheckItem("dropped: no references", outcomes.get("no_references", 0), 406, notes.references),
        CheckItem("dropped: no reference accessible", outcomes.get("none_accessible", 0), 1_635, coverage),
        CheckItem("surveys", found["coverage"]["surveys"], 7_952, filtered),
        CheckItem("dropped: no publication date", outcomes.get("no_date", 0), None),
        CheckItem("dropped: no reference left by the leakage rules", outcomes.get("none_left", 0), None),
        CheckItem("topics", outcomes.get("kept", 0), None),
        CheckItem(
            "surveys with half of the references or more, share",
            found["coverage"]["at_least_half"],
            0.1718,
            coverage,
        ),
        CheckItem("mind-maps", found["mindmaps"]["maps"], 1_884),
        CheckItem("nodes per level of mind-maps, slope", found["mindmaps"]["slope"], 2.04),
        CheckItem("surveys right by manual check, share (23 of 25)", None, 0.92),
        CheckItem("mind-maps rightly extracted by manual check, share (20 of 25)", None, 0.80),
        CheckItem("mind-maps relevant by manual check, share (15 of 25)", None, 0.60),
    ]


def _row(db: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    return db.sql(query).to_arrow_table().to_pylist()[0]


def _groups(db: duckdb.DuckDBPyConnection, column: str, source: str) -> dict[str, int]:
    return dict(db.sql(GROUPS.format(column=column, source=source)).fetchall())


def _fields(db: duckdb.DuckDBPyConnection, source: str) -> dict[str, int]:
    """Counts papers by field of study, most frequent first; a paper with several fields counts in each."""
    relation = "filtered" if source == "surveys" else source
    return _groups(db, "field", f"(SELECT unnest(fields_of_study) AS field FROM {relation})")


def _coverages(db: duckdb.DuckDBPyConnection) -> dict[str, list[float]]:
    """Returns the coverage of the filtered surveys in ascending order, for each of the most frequent fields."""
    rows = "SELECT unnest(fields_of_study) AS field, coverage FROM filtered"
    found: dict[str, list[float]] = {field: [] for field in list(_fields(db, "surveys"))[:TOP]}
    for field, coverage in db.sql(f"FROM ({rows}) ORDER BY field, coverage").fetchall():
        if field in found:
            found[field].append(coverage)
    return found


def _share_at_half(coverages: Sequence[float]) -> float | None:
    return sum(value >= 0.5 for value in coverages) / len(coverages) if coverages else None


def _draw(shard: Shard, found: dict[str, Any], coverages: dict[str, list[float]], shapes: Sequence[Shape]) -> None:
    from tasks.corpus import plots  # matplotlib takes half a second, and most who import the stage draw nothing

    for letter, source in (("a", "documents"), ("b", "surveys")):
        top = dict(list(found["fields_of_study"][source].items())[:TOP])
        plots.draw_fields(
            shard.file(f"figure4{letter}.svg"), f"({letter}) {source.capitalize()} by field of study", top
        )
    plots.draw_coverage(shard.file("figure4c.svg"), coverages, found["coverage"]["at_least_half"])
    plots.draw_complexity(shard.file("figure4d.svg"), shapes)
