"""An edition opened for reading: tables in Polars and DuckDB, runs that score as they were scored."""

from pathlib import Path

import polars as pl
import pytest

from schemas.errors import UsageError
from tasks.exports.edition import Edition
from tasks.metrics.ranking import evaluate_run
from tasks.store.store import Store
from tests.exports.conftest import TAG, Small, publish_run


@pytest.fixture
def two_runs(small: Small, store: Store) -> Edition:
    other = store.open(publish_run(store, "other", {1: {7: 2.0, 8: 1.0}}))
    return Edition("two", small.edition.datasets | {"run/other": other})


def test_tables_are_found_by_the_name_that_their_files_carry(small: Small) -> None:
    tables = small.edition.tables()
    assert list(tables) == ["outcomes", "qrels", "runs", "topics"]
    assert tables["runs"] == "One retrieved document of a topic."


def test_a_table_holds_the_rows_of_all_slots_or_of_one(small: Small, two_runs: Edition) -> None:
    runs = two_runs.table("runs")
    assert isinstance(runs, pl.LazyFrame)
    rows = runs.group_by("slot").len().collect().rows()
    assert dict(rows) == {f"run/{TAG}": 400, "run/other": 2}
    assert two_runs.table("runs", "run/other").collect()["corpus_id"].to_list() == [7, 8]
    qrels = two_runs.table("qrels").collect()
    assert qrels.columns == ["topic_id", "corpus_id", "relevance"], "a table of one slot has no column for it"
    assert len(qrels) == sum(len(labels) for labels in small.qrels.values())


def test_sql_sees_every_table_and_agrees_with_polars(small: Small, two_runs: Edition) -> None:
    query = """
        SELECT slot, topic_id, count(*) AS relevant
        FROM runs JOIN qrels USING (topic_id, corpus_id)
        WHERE relevance > 0 GROUP BY ALL ORDER BY ALL
    """
    runs, qrels = two_runs.table("runs"), two_runs.table("qrels").filter(pl.col("relevance") > 0)
    counted = runs.join(qrels, on=["topic_id", "corpus_id"]).group_by("slot", "topic_id").len().sort("slot", "topic_id")
    assert two_runs.sql(query).fetchall() == counted.collect().rows()
    for name in two_runs.tables():
        (found,) = two_runs.sql(f'SELECT count(*) FROM "{name}"').fetchall()
        assert found == two_runs.table(name).select(pl.len()).collect().row(0)


def test_a_relation_outlives_the_edition_it_was_made_with(small: Small) -> None:
    relation = Edition("gone", small.edition.datasets).sql("SELECT max(relevance) FROM qrels")
    assert relation.fetchall() == [(2,)]


def test_a_path_with_a_quote_is_read(small: Small, tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    small.edition.dataset("topics").folder.parents[1].rename(folder)
    store = Store(folder)
    edition = Edition("moved", {slot: store.open(dataset.ref) for slot, dataset in small.edition.datasets.items()})
    assert edition.sql("SELECT count(*) FROM runs").fetchall() == [(400,)]


def test_runs_and_judgments_score_over_the_evaluated_topics(small: Small) -> None:
    assert small.edition.runs() == (TAG,)
    assert small.edition.topics()["topic_id"].to_list() == [1, 2, 3, 4, 5], "topic 9 is not evaluated"
    expected = evaluate_run(small.qrels, {topic: list(hits.items()) for topic, hits in small.scores.items()})
    assert evaluate_run(small.edition.qrels(), small.edition.run(TAG)) == expected


def test_what_an_edition_lacks_is_refused_with_what_it_has(small: Small) -> None:
    with pytest.raises(UsageError, match="edition small has no run/mine; it has: topics, run/title"):
        small.edition.run("mine")
    with pytest.raises(UsageError, match="has no table 'papers'; the edition has: outcomes, qrels, runs, topics"):
        small.edition.table("papers")
    with pytest.raises(UsageError, match="edition small, slot topics, has no table 'runs'"):
        small.edition.table("runs", "topics")
