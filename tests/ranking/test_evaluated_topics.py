"""Samples of topics: every field and year has its share, and the seed decides the rest."""

from collections import Counter
from datetime import date

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tasks.ranking.evaluated_topics import sample_topics

SCHEMA = {"topic_id": pl.Int64, "fields_of_study": pl.List(pl.String), "horizon": pl.Date}

strata = st.tuples(st.sampled_from(["Art", "Biology", "Chemistry"]), st.integers(2015, 2018))


def table(rows: list[tuple[str, int]]) -> pl.DataFrame:
    """A topic for each (field, year), with ids that do not follow fields and years."""
    ids = [(7919 * place) % 10007 for place in range(len(rows))]
    given_rows = [(i, [field], date(year, 6, 1)) for i, (field, year) in zip(ids, rows, strict=True)]
    return pl.DataFrame(given_rows, SCHEMA, orient="row").sort("topic_id")


@given(st.lists(strata, min_size=1, max_size=60), st.integers(1, 60), st.integers(0, 5))
def test_every_field_and_every_year_of_a_field_has_its_share(rows, size, seed):
    topics = table(rows)
    sample = sample_topics(topics, size, seed)
    size = min(size, len(topics))
    assert len(sample) == size
    assert sample["topic_id"].to_list() == sorted(sample["topic_id"])
    assert set(sample["topic_id"]) <= set(topics["topic_id"])
    chosen = [(fields[0], horizon.year) for _, fields, horizon in sample.rows()]
    for total, found in (
        (Counter(rows), Counter(chosen)),
        (Counter(f for f, _ in rows), Counter(f for f, _ in chosen)),
    ):
        assert all(abs(found[stratum] - size * number / len(rows)) < 1 for stratum, number in total.items())


def test_the_seed_decides_which_topics_are_taken():
    topics = table([("Art", 2015 + place % 3) for place in range(300)])
    first, again, other = (set(sample_topics(topics, 30, seed)["topic_id"]) for seed in (42, 42, 7))
    assert first == again
    assert len(first & other) < 15


def test_a_topic_counts_in_the_field_that_most_topics_have():
    rows = [(i, ["Art", "Zoology"], None) for i in range(5)] + [(i, ["Zoology"], None) for i in range(5, 10)]
    topics = pl.DataFrame(rows, SCHEMA, orient="row")
    both = [sum(topic < 5 for topic in sample_topics(topics, 4, seed)["topic_id"]) for seed in range(20)]
    assert len(set(both)) > 1  # one stratum: with Art as their own, two of four in every sample


def test_topics_without_field_or_horizon_can_be_sampled():
    topics = pl.DataFrame([(1, [], None), (2, [], None), (3, ["Art"], date(2015, 1, 1))], SCHEMA, orient="row")
    assert len(sample_topics(topics, 2, 42)) == 2
