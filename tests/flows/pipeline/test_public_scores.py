"""What the maker of a served run is told of its scores: means over public topics alone, for every task."""

import pytest

from flows.pipeline.public_scores import public_scores
from schemas.split import Split
from schemas.tables.paperqa_scores import PAPERQA_SCORES
from schemas.tables.runs import OUTCOMES
from schemas.tables.tree_scores import TREE_SCORES
from tasks.organization.scores import TreeScoreSettings
from tasks.paperqa.scores import AnswerScoreSettings
from tasks.store.store import Store
from tests.published import publish

SPLIT = Split()
TOPICS = range(1, 41)
PUBLIC = [topic for topic in TOPICS if not SPLIT.is_private(topic)]
ANSWER = {"tag": "a@1", "evaluator": "eval_string_exact_match", "reason": None, "judge": None, "cost_usd": 0.0}


def test_trees(store: Store) -> None:
    rows = [
        {"tag": "a@1", "topic_id": topic, "measure": measure, "value": value, "encoder": None}
        for topic in TOPICS
        for measure, value in (("her", None if topic == PUBLIC[0] else 0.5), ("hsr", float(topic in PUBLIC)))
    ]
    ended = [
        {"topic_id": topic, "outcome": "failed" if topic == PUBLIC[1] else "scored", "note": None, "fallback": False}
        for topic in TOPICS
    ]
    trees = publish(store, "trees", {"outcomes": (OUTCOMES, [])})
    tables = {"part": (TREE_SCORES, rows), "outcomes": (OUTCOMES, ended)}
    slots = {"trees/a@1": trees, "tree_scores/a@1": publish(store, "tree_scores", tables, TreeScoreSettings())}
    found = public_scores(store, slots, "organization", SPLIT)
    told = {"topics": len(PUBLIC), "covered": len(PUBLIC) - 1}
    told |= {"her": 0.5, "her_low": 0.5, "her_high": 0.5, "hsr": 1.0, "hsr_low": 1.0, "hsr_high": 1.0}
    assert found == {"scores": {"trees": told}, "private_topics": len(TOPICS) - len(PUBLIC)}


def test_answers(store: Store) -> None:
    rows = [
        {
            **ANSWER,
            "uuid": str(topic),
            "score": float(topic in PUBLIC),
            "outcome": "unscored" if topic == PUBLIC[0] else "scored",
        }
        for topic in TOPICS
    ]
    scored = publish(store, "paperqa_scores", {"part": (PAPERQA_SCORES, rows)}, AnswerScoreSettings())
    found = public_scores(store, {"airqa/scores/a@1": scored}, "paperqa", SPLIT)
    told = {"topics": len(PUBLIC), "covered": len(PUBLIC) - 1, "score": 1.0, "score_low": 1.0, "score_high": 1.0}
    assert found == {"scores": {"answers": told}, "private_topics": len(TOPICS) - len(PUBLIC)}


@pytest.mark.parametrize("seed", [1, 2])
def test_another_split_leaves_out_other_topics_and_may_leave_none(seed: int, store: Store) -> None:
    rows = [{**ANSWER, "uuid": "q", "score": 1.0, "outcome": "scored"}]
    scored = publish(store, "paperqa_scores", {"part": (PAPERQA_SCORES, rows)}, AnswerScoreSettings())
    split = Split(split_seed=seed, private_share=0.5)
    found = public_scores(store, {"airqa/scores/a@1": scored}, "paperqa", split)
    private = split.is_private("q")
    assert (found["private_topics"], bool(found["scores"])) == (int(private), not private)
