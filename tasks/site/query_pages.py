"""Pages of search queries: what each engine returned, and what each judge said of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from schemas.search import REPORTED
from tasks.reports.blocks import Cell, Label, TableBlock
from tasks.reports.source import ReportSource
from tasks.reports.systems import describe_system
from tasks.site.pages import Facts, Page, Part
from tasks.site.question_pages import page_name
from tasks.site.system_pages import made_facts
from tasks.site.topic_pages import short

MEASURE = "mean_10"
"""Measure of the lists of queries."""


@dataclass(frozen=True)
class QueryData:
    """A search benchmark: queries, engines and judges."""

    source: ReportSource

    @cached_property
    def queries(self) -> list[dict[str, Any]]:
        """The queries."""
        return self.source.datasets["queries"].table().to_pylist()

    @cached_property
    def judges(self) -> list[str]:
        """Judges by name."""
        return list(self.source.under("judgments"))

    @cached_property
    def engines(self) -> dict[str, Label]:
        """Labels of the engines by name."""
        return {
            tag: describe_system(tag, made, page=f"engines/{tag}").label
            for tag, made in self.source.under("results").items()
        }

    @cached_property
    def judged(self) -> dict[tuple[str, str, str], tuple[int | None, str | None]]:
        """Level and sentence by judge, query and paper."""
        found: dict[tuple[str, str, str], tuple[int | None, str | None]] = {}
        for judge, dataset in self.source.under("judgments").items():
            rows = pl.read_parquet(dataset.files()).filter(attempt=0)
            columns = ("query_key", "doc_key", "score", "reason", "note")
            for query, paper, score, reason, note in rows.select(columns).iter_rows():
                found[judge, query, paper] = (score, reason if score is not None else note)
        return found

    @cached_property
    def results(self) -> Mapping[Any, pl.DataFrame]:
        """Returned papers by query."""
        frames = [pl.read_parquet(made.files()) for made in self.source.under("results").values()]
        rows = pl.concat(frames).sort("engine", "rank")
        return {key[0]: part for key, part in rows.partition_by("query_key", as_dict=True).items()}

    @cached_property
    def scores(self) -> dict[tuple[str, str], list[float]]:
        """Means of the first judge's scores by query and engine."""
        found: dict[tuple[str, str], list[float]] = {}
        for dataset in self.source.under("search_scores").values():
            rows = pl.read_parquet(dataset.files()).filter(measure=MEASURE).drop_nulls("value")
            for query, engine, value in rows.select("query_key", "engine", "value").iter_rows():
                found.setdefault((query, engine), []).append(value)
        return found


def query_pages(data: QueryData) -> Iterator[Page]:
    """Yields the page of each query."""
    for query in data.queries:
        key = query["query_key"]
        facts: dict[str, Cell] = {"Test set": query["test_set"], "Key": key}
        facts |= {one["name"]: one["value"] for one in query["dimensions"]}
        rows: list[tuple[Cell, ...]] = []
        for row in data.results.get(key, pl.DataFrame()).iter_rows(named=True):
            told = [data.judged.get((judge, key, row["doc_key"]), (None, None)) for judge in data.judges]
            levels = (None if level is None else REPORTED * level for level, _ in told)
            reasons = " / ".join(short(reason) for _, reason in told if reason)
            label = Label(short(row["title"]), link=row["url"] or "")
            rows.append((data.engines[row["engine"]].text, row["rank"], label, *levels, reasons or None))
        judges = tuple(f"Score by {judge}" for judge in data.judges)
        table = TableBlock(
            "results",
            "What each engine returned, with the judges' scores of 0 to 100",
            ("Engine", "Rank", "Paper", *judges, "The judges' sentences"),
            tuple(rows),
            facets={"Engine": tuple(str(row[0]) for row in rows)},
        )
        parts = (Part("", (Facts(facts),)), Part("Results", (table,)))
        yield Page(f"queries/{page_name(key)}", short(query["text"]), "A query of a researcher.", parts)


def query_list(data: QueryData) -> TableBlock:
    """Returns the table of all queries with each engine's mean."""
    rows = tuple(
        (
            Label(short(query["text"]), page=f"queries/{page_name(query['query_key'])}"),
            query["test_set"],
            *(_mean(data.scores.get((query["query_key"], engine))) for engine in data.engines),
        )
        for query in data.queries
    )
    names = tuple(label.text for label in data.engines.values())
    return TableBlock(
        "queries", "Queries, with the mean @10 of each engine over the judges", ("Query", "Test set", *names), rows
    )


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def engine_pages(data: QueryData) -> Iterator[Page]:
    """Yields the page of each engine."""
    for tag, made in data.source.under("results").items():
        settings = made.manifest.parameters
        facts: dict[str, Cell] = {"Engine": settings.get("engine"), "Depth": settings.get("depth")}
        facts |= {"Asked on": settings["snapshot"]} if settings.get("snapshot") else {}
        rows = tuple(
            (
                Label(short(query["text"]), page=f"queries/{page_name(query['query_key'])}"),
                _mean(data.scores.get((query["query_key"], tag))),
            )
            for query in data.queries
        )
        table = TableBlock("queries", "Query by query", ("Query", "Mean @10"), rows)
        parts = (Part("", (Facts(facts | made_facts(made)),)), Part("Queries", (table,)))
        yield Page(f"engines/{tag}", data.engines[tag].text, f"A search engine: {tag}.", parts)
