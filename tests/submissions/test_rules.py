"""The rules of a submission: what counts of a ranking, a tree and an answer, and how a topic ends."""

from datetime import date

import numpy as np
import pytest

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.submission import Submission, Task
from schemas.topic import Topic
from tasks.retrieval.retriever import Allowed, Catalogue
from tasks.submissions.rules import MOST_LEVELS, MOST_NODES, check_submission

TOPIC, SURVEY, LATE, GOOD, OTHER, NOWHERE = 1, 2, 3, 4, 5, 6
CATALOGUE = Catalogue(
    np.array([TOPIC, SURVEY, LATE, GOOD, OTHER]),
    np.array([100, 100, 20_000, 100, 100], np.int32),
    np.array([True, True, False, False, False]),
)
ALLOWED = Allowed.of(CATALOGUE, Topic(CorpusId(TOPIC), "Birds", date(2000, 1, 1)))
TREE = {"label": "Birds", "children": [{"label": "Wings", "children": []}]}


def check(task: Task = "discovery", returned: tuple[int, ...] = (), **fields: object):
    return check_submission(task, Submission.model_validate(fields), ALLOWED, returned)


def test_forbidden_and_unknown_documents_are_counted_as_one_and_the_first_place_of_a_repeated_one_counts():
    ranking = [OTHER, TOPIC, SURVEY, GOOD, LATE, NOWHERE, OTHER, -1, 10**30, 0]
    found = check(ranking=ranking, returned=(GOOD,))
    assert found.documents == (OTHER, GOOD)
    assert found.receipt() == {"accepted": 2, "violations": {"unavailable": 7, "duplicate": 1}, "outside": 1}
    assert found.outside == (OTHER,)
    assert (found.outcome, found.note) == ("scored", None)


@pytest.mark.parametrize("forbidden", [TOPIC, SURVEY, LATE, NOWHERE, 10**30])
def test_a_system_cannot_tell_a_forbidden_document_from_one_that_does_not_exist(forbidden: int):
    assert check(ranking=[GOOD, forbidden]) == check(ranking=[GOOD, NOWHERE])


def test_a_ranking_of_which_nothing_is_left_is_empty_and_says_why():
    found = check(ranking=[SURVEY, SURVEY])
    assert (found.outcome, found.accepted) == ("empty", 0)
    assert found.note == "2 of 2 documents were removed"
    assert check(ranking=[]).outcome == "empty"


@pytest.mark.parametrize("status", ["failed", "over_budget", "refused"])
def test_a_system_may_say_that_it_failed_and_why(status: str):
    found = check(status=status, note="x" * 10_000)
    assert found.outcome == status
    assert found.note is not None and set(found.note) == {"x"} and len(found.note) == 500
    assert check(status=status, ranking=[GOOD]).documents == (GOOD,)


def test_a_tree_is_counted_by_its_nodes_and_its_labels_are_cleaned():
    found = check("organization", tree={"label": " Birds\n", "children": TREE["children"]})
    assert (found.outcome, found.accepted) == ("scored", 2)
    assert found.tree is not None and found.tree["children"][0]["label"] == "Birds"
    both = check("organization", tree=TREE, ranking=[GOOD, LATE])
    assert both.receipt() == {"accepted": 1, "violations": {"unavailable": 1, "duplicate": 0}, "outside": 1}


@pytest.mark.parametrize(("answer", "text"), [("Yes", "Yes"), (["a", 1], '["a", 1]'), (0, "0"), (False, "false")])
def test_an_answer_may_be_any_json(answer: object, text: str):
    found = check("paperqa", answer=answer)
    assert (found.answer, found.outcome, found.accepted) == (text, "scored", 1)


@pytest.mark.parametrize("answer", [None, "", "  "])
def test_an_answer_without_a_word_is_empty(answer: object):
    assert check("paperqa", answer=answer).outcome == "empty"


def deep(levels: int) -> dict[str, object]:
    tree: dict[str, object] = {"label": "x", "children": []}
    for _ in range(levels - 1):
        tree = {"label": "x", "children": [tree]}
    return tree


@pytest.mark.parametrize(
    ("task", "fields", "named"),
    [
        ("discovery", {}, "ranking"),
        ("organization", {"ranking": [GOOD]}, "tree"),
        ("paperqa", {}, "answer"),
        ("discovery", {"ranking": [GOOD], "tree": TREE}, "tree"),
        ("selection", {"ranking": [GOOD], "answer": "Yes"}, "answer"),
        ("paperqa", {"answer": "Yes", "ranking": [GOOD]}, "ranking"),
        ("organization", {"tree": {"label": " ", "children": []}}, "tree"),
        ("organization", {"tree": {"label": 1, "children": []}}, "tree"),
        ("organization", {"tree": {"label": "a", "children": [{"label": "b"}] * MOST_NODES}}, "tree"),
        ("organization", {"tree": deep(MOST_LEVELS + 1)}, "tree"),
    ],
)
def test_what_does_not_fit_the_task_is_refused_by_the_name_of_the_field(
    task: Task, fields: dict[str, object], named: str
):
    with pytest.raises(BadInput, match=f"^{named}: "):
        check(task, **fields)
