"""Judged search engines: scores, significant differences, failures, cost, and the reliability of the judges."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from schemas.search import REPORTED
from tasks.reports.blocks import Cell, Change, Estimate, FigureBlock, Section, TableBlock
from tasks.reports.heatmap import draw_heat_map
from tasks.reports.leaderboard import PLACE, TIED
from tasks.reports.source import ReportSource
from tasks.reports.systems import FACETS, describe_system
from tasks.search.judgments import judge
from tasks.stats.ties import SIGNIFICANT, join_places, tied_places
from tasks.store.dataset import Dataset

PREFIX = "search_scores:"
HEADLINE = 10
"""Cutoff of the main figures; the largest one below it where this one is missing."""

WORST = 8
"""How many of the worst queries are shown, with the judge's reasons."""

NAMES = {
    "mean": "Mean",
    "ndcg": "nDCG",
    "high": "80 or above",
    "mean_returned": "Mean of returned",
    "high_returned": "80 or above of returned",
    "coverage": "Judged",
}
_MEANINGS = {
    "mean": "Average score (level times 20) of the first k places, over all queries; a place without a paper counts 0.",
    "ndcg": "Gains are the levels; the ideal list holds all papers that any engine returned for the query.",
    "high": "Share of the first k places with level 4 or 5.",
    "mean_returned": "The mean over the papers that the engine returned, so that a short list costs nothing.",
    "high_returned": "Share with level 4 or 5 among the papers that the engine returned.",
    "coverage": "Share of returned papers with a valid judgment; papers without one are left out everywhere.",
}


class _Judged(NamedTuple):
    """One judge's results; frames as the stages wrote them."""

    tag: str
    judge: Dataset
    results: Mapping[str, Dataset]
    summaries: pl.DataFrame
    comparisons: pl.DataFrame
    scores: pl.DataFrame
    engines: list[str]
    cutoff: int

    def name(self, block: str) -> str:
        """File name of a block."""
        return f"{block}-{self.tag}"

    def page(self, engine: str) -> str:
        """Page of an engine in the site."""
        return f"engines/{engine}"

    def estimate(self, engine: str, measure: str, group: str = "all") -> Estimate:
        """A mean with its interval."""
        rows = self.summaries.filter(engine=engine, measure=measure, group=group)
        return Estimate(*rows.select("mean", "low", "high", "valued").row(0)) if len(rows) else Estimate(None)


def sections(source: ReportSource) -> list[Section]:
    """Returns two sections for each judge and one on their reliability; none when no engine was judged."""
    tags = sorted(name.removeprefix(PREFIX) for name in source.datasets if name.startswith(PREFIX))
    found: list[Section] = []
    for judged in (_read(source, tag) for tag in tags):
        found += [_section(source, judged), _worst(source, judged)]
    if tags and "agreement" in source.datasets:
        found += _reliability(source)
    return found


def _read(source: ReportSource, tag: str) -> _Judged:
    scored, judged = source.datasets[PREFIX + tag], source.datasets[f"judgments:{tag}"]
    summaries = pl.read_parquet(scored.files("summaries"))
    cutoffs = {int(measure.rpartition("_")[2]) for measure in summaries["measure"].unique()}
    cutoff = max((k for k in cutoffs if k <= HEADLINE), default=min(cutoffs))
    means = summaries.filter(measure=f"mean_{cutoff}", group="all").sort("mean", descending=True, nulls_last=True)
    comparisons, scores = pl.read_parquet(scored.files("comparisons")), pl.read_parquet(scored.files())
    return _Judged(
        tag, judged, source.under("results"), summaries, comparisons, scores, means["engine"].to_list(), cutoff
    )


def _section(source: ReportSource, judged: _Judged) -> Section:
    return Section(
        f"Search engines, judged by {judged.tag}",
        "How relevant is what an engine returns for a researcher's query? A judge reads every paper once, whichever "
        "engine returned it.",
        (
            _engines(judged),
            _comparisons(judged),
            _cutoffs(judged),
            _heat_map(judged),
            _values(judged),
            _cost(judged),
            _outcomes(source, judged),
        ),
    )


def _engines(judged: _Judged) -> TableBlock:
    k = judged.cutoff
    pairs = judged.comparisons.filter(measure=f"mean_{k}").select("engine", "other", "p_holm").rows()
    at = {engine: place for place, engine in enumerate(judged.engines)}
    tied = tied_places(range(len(at)), {(at[a], at[b]): p_value for a, b, p_value in pairs})
    rows: list[tuple[Cell, ...]] = []
    systems = [describe_system(engine, judged.results[engine], page=judged.page(engine)) for engine in judged.engines]
    for place, engine in enumerate(judged.engines):
        counts = judged.summaries.filter(engine=engine, measure=f"mean_{k}", group="all").row(0, named=True)
        first, *measures = [judged.estimate(engine, f"{name}_{k}") for name in NAMES]
        shared = join_places(tied[place]) if len(at) > 1 else None
        label = systems[place].label
        rows.append((place + 1, label, first, shared, *measures, counts["answered"], counts["queries"]))
    head, *others = (f"{name} @{k}" for name in NAMES.values())
    return TableBlock(
        judged.name("search"),
        "Engines, best first",
        (PLACE, "Engine", head, TIED, *others, "Answered", "Queries"),
        tuple(rows),
        "95 % bootstrap intervals over queries. Tied with: places of the engines that cannot be told apart by the mean "
        "(paired randomisation test over queries, Holm's correction over all pairs of engines, "
        f"p >= {SIGNIFICANT:g}). Bold: cannot be told apart from the highest.",
        leaders={head: frozenset({0, *(place - 1 for place in tied.get(0, ()))})},
        drawn=frozenset({head}),
        explained={f"{NAMES[name]} @{k}": meaning for name, meaning in _MEANINGS.items()},
        facets={facet: tuple(s.facets[at] for s in systems) for at, facet in enumerate(FACETS)},
    )


def _comparisons(judged: _Judged) -> TableBlock:
    k = judged.cutoff
    measures = [f"mean_{k}", f"ndcg_{k}", f"high_{k}"]
    rows = [
        (
            f"{row['engine']} - {row['other']}",
            f"{NAMES[row['measure'].rpartition('_')[0]]} @{k}",
            Change(row["difference"], row["p_holm"]),
            Estimate(row["difference"], row["low"], row["high"]),
            row["wins"],
            row["ties"],
            row["losses"],
            "tied" if row["tied"] else "told apart",
        )
        for measure in measures
        for row in judged.comparisons.filter(measure=measure).sort("difference", descending=True).iter_rows(named=True)
    ]
    return TableBlock(
        judged.name("search_differences"),
        "Pairs of engines on the same queries",
        ("Pair", "Measure", "Difference", "Interval", "Wins", "Ties", "Losses", "Verdict"),
        tuple(rows),
        "p-values after Holm's correction.",
    )


def _cutoffs(judged: _Judged) -> TableBlock:
    names = [name for name in NAMES if name != "coverage"]
    cutoffs = sorted({int(m.rpartition("_")[2]) for m in judged.summaries["measure"].unique()})
    columns = [(name, k) for name in names for k in cutoffs]
    rows = [(engine, *(judged.estimate(engine, f"{name}_{k}") for name, k in columns)) for engine in judged.engines]
    titles = tuple(f"{NAMES[name]} @{k}" for name, k in columns)
    return TableBlock(
        judged.name("search_cutoffs"), "Every cutoff", ("Engine", *titles), tuple(rows), best=frozenset(titles)
    )


def _groups(judged: _Judged) -> list[str]:
    """Returns the groups other than all, test sets first, then dimension by dimension."""
    groups = judged.summaries["group"].unique().to_list()
    return sorted((group for group in groups if group != "all"), key=lambda g: (not g.startswith("test_set: "), g))


def _heat_map(judged: _Judged) -> FigureBlock:
    k = judged.cutoff
    means = judged.summaries.filter(measure=f"mean_{k}")
    known = {
        (row["group"], row["engine"]): row["mean"] for row in means.iter_rows(named=True) if row["mean"] is not None
    }
    rows, headings = ["all"], set[str]()
    values = {("all", engine): known["all", engine] for engine in judged.engines if ("all", engine) in known}
    for group in _groups(judged):
        dimension, _, value = group.partition(": ")
        if dimension not in headings:
            headings.add(dimension)
            rows.append(dimension)
        rows.append(f"{value} ({_queries(means, group)})")
        values |= {(rows[-1], e): known[group, e] for e in judged.engines if (group, e) in known}
    return FigureBlock(
        judged.name("search-map"),
        f"Mean @{k} by test set and by every value of every dimension, with the number of queries",
        draw_heat_map(rows, judged.engines, values, frozenset(headings)),
        wide=True,
    )


def _queries(means: pl.DataFrame, group: str) -> int:
    return means.filter(group=group)["queries"][0]


def _values(judged: _Judged) -> TableBlock:
    k = judged.cutoff
    means = judged.summaries.filter(measure=f"mean_{k}")
    rows = tuple(
        (group, _queries(means, group), *(judged.estimate(engine, f"mean_{k}", group) for engine in judged.engines))
        for group in _groups(judged)
    )
    return TableBlock(
        judged.name("search_values"),
        f"Mean @{k} by test set and by every value of every dimension",
        ("Queries with", "Number", *judged.engines),
        rows,
        "Values that the benchmark's own table does not list are kept. Groups with few queries have wide intervals.",
    )


def _worst(source: ReportSource, judged: _Judged) -> Section:
    k = judged.cutoff
    scores = judged.scores.filter(measure=f"mean_{k}")
    means = scores.group_by("query_key").agg(pl.col("value").mean()).drop_nulls().sort("value", "query_key")
    texts = dict(pl.read_parquet(source.datasets["queries"].files()).select("query_key", "text").iter_rows())
    first = {(row["query_key"], row["engine"]): row for row in _firsts(judged)}
    values = {(query, engine): v for query, engine, v in scores.select("query_key", "engine", "value").iter_rows()}
    blocks: list[TableBlock] = []
    for place, query_key in enumerate(means["query_key"].head(WORST), 1):
        rows: list[tuple[Cell, ...]] = []
        for engine in judged.engines:
            told = first.get((query_key, engine), {})
            level = told.get("score")
            reported = None if level is None else REPORTED * level
            sentence = told.get("reason") if level is not None else told.get("note")
            rows.append((engine, values.get((query_key, engine)), told.get("title"), reported, sentence))
        columns = ("Engine", f"Mean @{k}", "First paper", "Its score", "The judge's sentence")
        blocks.append(TableBlock(judged.name(f"search_worst_{place}"), texts[query_key], columns, tuple(rows)))
    return Section(
        f"Where engines fail, judged by {judged.tag}",
        f"The {len(blocks)} queries with the lowest mean @{k} over all engines, and what the judge said of the first "
        "paper of each list.",
        tuple(blocks),
    )


def _firsts(judged: _Judged) -> Iterator[Mapping[str, Any]]:
    """Yields the judgment of the first paper of every list."""
    pool = pl.read_parquet(judged.judge.files("pool")).filter(rank=1)
    judgments = pl.read_parquet(judged.judge.files()).filter(attempt=0)
    return pool.join(judgments, on=["query_key", "doc_key"]).iter_rows(named=True)


def _cost(judged: _Judged) -> TableBlock:
    counts, settings = judged.judge.manifest.counts, judged.judge.manifest.settings(judge)
    calls = pl.read_parquet(judged.judge.files("calls"))
    alone = pl.read_parquet(judged.judge.files(), columns=["title_only"])["title_only"].sum()
    rows: list[tuple[Cell, ...]] = [
        ("Judge", settings.judge),
        ("Model", f"{settings.model.model} of {settings.model.provider}"),
        ("Judgments", counts.read),
        ("with a valid score", counts.kept),
        ("failed", counts.failed),
        *((reason.replace("_", " "), number) for reason, number in sorted(counts.dropped.items())),
        ("judged on the title alone", int(alone or 0)),
        *((what, int(number)) for what, number in sorted(counts.notes.items())),
        ("Tokens read", int(calls["input_tokens"].sum() or 0)),
        ("Tokens written", int(calls["output_tokens"].sum() or 0)),
        ("USD, when the calls were made", float(calls["cost_usd"].sum() or 0)),
    ]
    return TableBlock(judged.name("search_cost"), "Judgments and their cost", ("Item", "Number"), tuple(rows))


def _outcomes(source: ReportSource, judged: _Judged) -> TableBlock:
    rows: list[tuple[Cell, ...]] = []
    for engine in judged.engines:
        outcomes = pl.read_parquet(source.datasets[f"results:{engine}"].files("outcomes"))
        counts = dict(outcomes.group_by("outcome").len().iter_rows())
        returned = outcomes["returned"].mean()
        failures = outcomes.filter(outcome="failed")["note"]
        rows.append(
            (
                engine,
                *(counts.get(name, 0) for name in ("scored", "empty", "failed")),
                float(returned) if isinstance(returned, float) else None,
                failures[0] if len(failures) else None,
            )
        )
    return TableBlock(
        judged.name("search_outcomes"),
        "Outcomes of the engines on the queries",
        ("Engine", "Answered", "Empty", "Failed", "Papers a query", "For example"),
        tuple(rows),
    )


def _reliability(source: ReportSource) -> list[Section]:
    dataset = source.datasets["agreement"]
    pairs, sure = pl.read_parquet(dataset.files()), pl.read_parquet(dataset.files("confidences"))
    if not len(pairs):
        return []
    columns = ("kind", "first", "second", "papers", "equal", "close", "difference", "kappa", "alpha")
    titles = ("Kind", "First", "Second", "Papers", "Equal", "Within 1", "First less second", "Kappa", "Alpha")
    agreement = TableBlock(
        "judges_agreement",
        "Judgments of the same papers",
        titles,
        tuple(pairs.select(columns).iter_rows()),
        "Kappa: Cohen's, quadratic weights. Alpha: Krippendorff's for interval data. Differences in levels of 0 to 5.",
    )
    confidence = TableBlock(
        "judges_confidence",
        "How far other judgments are from a judge's, by the judge's confidence",
        ("Judge", "Confidence", "Against", "Pairs", "Mean distance"),
        tuple(sure.select("judge", "confidence", "against", "pairs", "disagreement").iter_rows()),
        "A well-calibrated judge has smaller distances where it is more confident.",
    )
    lead = "How stable are the judges, and how well do they agree with each other and with people?"
    return [Section("Reliability of the judges", lead, (agreement, confidence) if len(sure) else (agreement,))]
