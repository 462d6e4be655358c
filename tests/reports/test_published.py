"""The figures of other papers: complete, plausible, and named as our measures are."""

from tasks.metrics.ranking import all_measures
from tasks.reports.published import PUBLISHED, PUBLISHED_METHODS, PUBLISHED_MODELS, PUBLISHED_TREES


def test_every_baseline_has_both_retrievers_and_every_measure_once() -> None:
    rows = [(run.baseline, run.retriever) for run in PUBLISHED]
    names = ("title", "zero_shot", "decomposer", "self_rag", "storm")
    assert rows == [(name, retriever) for name in names for retriever in ("bm25", "dense")]
    assert all(run.means.keys() <= all_measures().keys() and len(run.means) == 8 for run in PUBLISHED)


def test_values_stand_under_the_right_measure() -> None:
    """Relations that any ranking must fulfil catch columns that were swapped."""
    for run in PUBLISHED:
        means = run.means
        assert 0 < means["recall_10"] <= means["recall_100"] < 1
        assert 0 < means["P_100"] <= means["P_10"] < means["recip_rank"] < 1
        assert means["ndcg_cut_10"] <= means["recip_rank"]
    title = next(run.means for run in PUBLISHED if (run.baseline, run.retriever) == ("title", "dense"))
    assert (title["recall_100"], title["P_10"], title["ndcg_cut_10"], title["recip_rank"]) == (
        0.2697, 0.1541, 0.1678, 0.3816,
    )  # fmt: skip


def test_trees_and_answers_lie_in_their_ranges() -> None:
    assert len({(row.builder, row.references) for row in PUBLISHED_TREES}) == len(PUBLISHED_TREES) == 5
    assert all(0 < row.entity_recall < row.soft_recall < 1 < row.distance for row in PUBLISHED_TREES)
    for row in (*(r[2:] for r in PUBLISHED_MODELS), *(r[1:] for r in PUBLISHED_METHODS)):
        assert all(0 <= percent <= 100 for percent in row)
