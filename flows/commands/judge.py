"""`arena judge`: compares search engines on researchers' queries; a model judges their results."""

import shutil
from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter

from flows.commands.display import Display
from flows.commands.options import FLAT
from flows.commands.terminal import show_json, show_list, show_rows, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.search_walk import Searched, ask_engines, estimate, judge_results, search_edition
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName
from schemas.llm import Estimate
from schemas.search import SearchQuery, SearchSettings
from tasks.search.queries import marginals, read_test_set, unknown_values
from tasks.store.dataset import Dataset
from tasks.store.store import Store

SHOWN = ("mean_1", "mean_5", "mean_10", "mean_20", "ndcg_10", "high_10", "mean_returned_10", "coverage_10")


def judge(
    queries: Annotated[list[Path], Parameter(help="JSON files with queries, one test set per file.")],
    /,
    *,
    edition: EditionName | None = None,
    settings: Annotated[SearchSettings, FLAT] = SearchSettings(),
    labels: Path | None = None,
    list_marginals: Annotated[bool, Parameter(name="--list")] = False,
    dry_run: bool = False,
    to: Path | None = None,
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Judge what search engines return for researchers' queries, and compare the engines.

    Each paper is judged once per query, even if several engines return it; earlier judgments are reused at no cost.
    Keys of web services are read from S2_API_KEY, ARENA_OPENALEX_API_KEY and ARENA_URL_ENGINE_KEY, and the
    contact address to send them from ARENA_MAILTO.

    Args:
        queries: Files with queries.
        edition: Name of the edition; may be left out when there is only one. A new name is fine when no engine searches
            an edition.
        labels: A sheet with human judgments of some of the papers, to compare the judges with.
        list_marginals: Only check the files, and show how many queries have each value.
        dry_run: Ask the engines, show what judging would cost, and stop.
        to: Folder to copy the report to.
        json: Print as JSON.
    """
    if list_marginals:
        _show_marginals([query for path in queries for query in read_test_set(path)], json)
        return
    machine = machine or Machine()
    store = Store(machine.root)
    with Display() as display:
        name = search_edition(store, edition, settings)
        pipeline = Pipeline(store, name, display.executor(store, machine), control)
        searched = ask_engines(pipeline, settings, queries)
        built = None if dry_run else judge_results(pipeline, settings, searched, labels)
    if built is None:
        _show_estimate(estimate(pipeline, searched), json)
    elif searched.slots.report in built:
        _show_scores(pipeline, searched, built, to, json)
    else:  # --until an earlier stage
        show_rows(tables.count_rows(store, built), f"edition {name}", decimals=1)


def _show_marginals(queries: list[SearchQuery], json: bool) -> None:
    unknown = unknown_values(queries)
    rows = [
        {
            "test set": test_set,
            "dimension": dimension,
            "value": value,
            "queries": number,
            "note": "not in the benchmark's table"
            if {f"dimension {dimension}", f"{dimension} {value}"} & unknown.keys()
            else "",
        }
        for (test_set, dimension, value), number in marginals(queries).items()
    ]
    show_list(rows, f"{len(queries):,} queries", json=json)


def _show_estimate(costs: dict[str, Estimate], json: bool) -> None:
    rows = [
        {
            "judge": tag,
            "judgments": cost.calls,
            "remembered": cost.cached,
            "tokens": cost.tokens.total,
            "USD, answers of full length": cost.usd,
            "USD, at most": cost.usd_bound,
        }
        for tag, cost in costs.items()
    ]
    show_list(rows, "estimated cost of judging; no judge was called", json=json)


def _show_scores(pipeline: Pipeline, searched: Searched, built: Slots, to: Path | None, json: bool) -> None:
    store, slots = pipeline.store, searched.slots
    page = store.folder(built[slots.report])
    if to:
        shutil.copytree(page, to, dirs_exist_ok=True)
        page = to
    tags = [who.tag for who in searched.judges]
    scored = {tag: _score_rows(store.open(built[slots.scores(tag)])) for tag in tags}
    cost = [_cost_row(tag, store.open(built[slots.judgments(tag)])) for tag in tags]
    if json:
        found = {"edition": pipeline.edition, "scores": scored, "cost": cost}
        show_json({**found, "report": str(page / "report.html"), "datasets": tables.slot_refs(built)})
        return
    for tag, rows in scored.items():
        show_rows(rows, f"judged by {tag}: means over queries, scores from 0 to 100", decimals=3)
    show_rows(cost, "judgments: new calls (asked) and calls answered from the cache (remembered)")
    show_text(f"report: {page / 'report.html'}")


def _score_rows(scores: Dataset) -> list[tables.Row]:
    means = pl.read_parquet(scores.files("summaries")).filter(group="all")
    wide = means.pivot("measure", index=["engine", "queries", "answered"], values="mean")
    shown = [name for name in SHOWN if name in wide.columns]
    best = "mean_10" if "mean_10" in shown else shown[0]
    return wide.sort(best, descending=True).select("engine", *shown, "answered", "queries").to_dicts()


def _cost_row(tag: str, judgments: Dataset) -> tables.Row:
    counts = judgments.manifest.counts
    usd = pl.read_parquet(judgments.files("calls"))["cost_usd"].sum()
    return {
        "judge": tag,
        "judgments": counts.read,
        "scored": counts.kept,
        "failed": counts.failed,
        "over budget": counts.dropped.get("over_budget", 0),
        "asked": int(counts.notes.get("judgments asked", 0)),
        "remembered": int(counts.notes.get("judgments remembered", 0)),
        "USD": float(usd or 0),
    }
