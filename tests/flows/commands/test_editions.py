"""Comparisons through the command line: two editions, and recent surveys against the others."""

import pytest

from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import ONE, Arena

TITLE = ("run", "discovery", "--baselines", "title", "--retrievers", "bm25", *ONE)
RUN = "title.bm25.abstract"


def test_a_later_edition_is_compared_with_the_one_before(arena: Arena) -> None:
    arena.json(*TITLE)
    editions = Editions(Store(arena.folder / "store"))
    slots = dict(editions.load("2026-01-06").slots)
    del slots["statistics"]
    editions.record("later", "2026-01-06", slots)
    arena.json(*TITLE, "--edition", "later", "--cutoff", 10)
    found = arena.json("edition", "diff", "2026-01-06", "later")
    content = {row["slot"]: row["content"] for row in found["datasets"]}
    assert {slot for slot, what in content.items() if what != "same"} == {
        "statistics",
        f"run/{RUN}@10",
        f"scores/{RUN}@10",
    }
    assert (content["statistics"], content[f"run/{RUN}@10"]) == ("only in the earlier", "only in the later")
    assert found["topics"] == []
    recall = next(row for row in found["scores"] if (row["run"], row["measure"]) == (RUN, "recall_10"))
    assert recall["topics"] > 0 == recall["new"]
    assert recall["difference"] == 0


def test_recent_surveys_are_scored_apart_from_the_others(arena: Arena) -> None:
    (scored,) = arena.json(*TITLE)["scores"]["graded"]

    def recall(after: str) -> dict[str, float]:
        rows = arena.json("edition", "fresh", "2026-01-06", "--after", after)["scores"]
        return next(row for row in rows if row["measure"] == "recall_10")

    everything, nothing = recall("1900-01-01"), recall("2100-01-01")
    assert (everything["fresh"], everything["older"]) == (nothing["older"], nothing["fresh"]) == (scored["topics"], 0)
    assert everything["fresh_mean"] == nothing["older_mean"] == pytest.approx(scored["recall_10"])
    years = [recall(f"{year}-01-01") for year in range(2015, 2026)]
    assert all(row["fresh"] + row["older"] == scored["topics"] for row in years)
    assert len({row["fresh"] for row in years}) > 1
