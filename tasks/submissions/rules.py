"""The rules of a submission: which documents count, what a tree and an answer must be, how a topic ended."""

import json
from collections.abc import Collection
from typing import NamedTuple

from schemas.errors import BadInput
from schemas.identifiers import Outcome
from schemas.mindmap import Tree, load_tree, tree_shape
from schemas.submission import Submission, Task
from tasks.llm.subjects import NOTE_LENGTH
from tasks.paperqa.runs import MOST_ANSWER
from tasks.retrieval.retriever import Allowed

FIELDS: dict[Task, frozenset[str]] = {
    "discovery": frozenset({"ranking"}),
    "selection": frozenset({"ranking"}),
    "organization": frozenset({"ranking", "tree"}),
    "paperqa": frozenset({"answer"}),
}
"""What may be handed in for a task."""

NEEDED: dict[Task, str] = {"discovery": "ranking", "selection": "ranking", "organization": "tree", "paperqa": "answer"}
"""What must be handed in for a task, unless the system says that it failed."""

MOST_NODES = 2000
"""Nodes of a tree."""

MOST_LEVELS = 100
"""Levels of a tree."""

NOTHING = "nothing was handed in"


class Checked(NamedTuple):
    """What counts of a submission.

    Attributes:
        documents: The ranking without violations, best first.
        outcome: How the topic ended.
        note: Why, where it is not `scored`.
        unavailable: How many documents were removed that do not exist or that no system may see.
        duplicate: How many were removed because they stand further up.
        outside: Those of `documents` that the desk never returned to the topic.
        tree: The tree in its canonical form.
        answer: The answer as text.
    """

    documents: tuple[int, ...] = ()
    outcome: Outcome = "empty"
    note: str | None = NOTHING
    unavailable: int = 0
    duplicate: int = 0
    outside: tuple[int, ...] = ()
    tree: Tree | None = None
    answer: str | None = None

    @property
    def accepted(self) -> int:
        """How much was accepted: documents of the ranking, else nodes of the tree, else answers."""
        if self.documents or self.tree is None:
            return len(self.documents) + (self.answer is not None)
        return tree_shape(self.tree).nodes

    @property
    def violations(self) -> dict[str, int]:
        """Numbers of removed documents by reason."""
        return {"unavailable": self.unavailable, "duplicate": self.duplicate}

    def receipt(self) -> dict[str, object]:
        """Returns what the system is told: numbers alone."""
        return {"accepted": self.accepted, "violations": self.violations, "outside": len(self.outside)}


def check_submission(
    task: Task, submission: Submission, allowed: Allowed | None = None, returned: Collection[int] = ()
) -> Checked:
    """Checks what was handed in for a topic, and returns what of it counts.

    Of a document that occurs twice, the first place counts. A document that does not exist and one that the topic may
    not see are counted as one.

    Args:
        task: What was asked.
        submission: What was handed in.
        allowed: The topic's leakage filter; needed for rankings.
        returned: Documents that the desk returned to the topic.

    Raises:
        BadInput: A field is missing, is not of the task, or its value cannot be used; the message begins with its name.
    """
    _require_fields(task, submission)
    tree = None if submission.tree is None else _check_tree(submission.tree)
    answer = None if submission.answer is None else _text(submission.answer)
    distinct = list(dict.fromkeys(submission.ranking or ()))
    seen = allowed.visible(distinct).tolist() if allowed and distinct else [False] * len(distinct)
    documents = tuple(document for document, is_seen in zip(distinct, seen, strict=True) if is_seen)
    known = set(returned)
    checked = Checked(
        documents,
        unavailable=len(distinct) - len(documents),
        duplicate=len(submission.ranking or ()) - len(distinct),
        outside=tuple(document for document in documents if document not in known),
        tree=tree,
        answer=answer,
    )
    return checked._replace(**_ended(task, submission, checked))


def _require_fields(task: Task, submission: Submission) -> None:
    given = {name for name in ("ranking", "tree", "answer") if getattr(submission, name) is not None}
    if strange := sorted(given - FIELDS[task]):
        raise BadInput(f"{strange[0]}: task {task} has none; hand in {' or '.join(sorted(FIELDS[task]))}")
    needed = NEEDED[task]
    if submission.status == "scored" and needed not in submission.model_fields_set:
        raise BadInput(f"{needed}: is missing; task {task} needs it, or a status that is not 'scored'")


def _check_tree(value: object) -> Tree:
    try:
        tree = load_tree(value)
    except BadInput as error:
        raise BadInput(f"tree: {error}") from error
    shape = tree_shape(tree)
    if shape.nodes > MOST_NODES or shape.depth > MOST_LEVELS:
        raise BadInput(
            f"tree: has {shape.nodes:,} nodes on {shape.depth:,} levels; at most {MOST_NODES:,} nodes on {MOST_LEVELS} "
            "levels are taken"
        )
    return tree


def _text(answer: object) -> str:
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text[:MOST_ANSWER]


def _ended(task: Task, submission: Submission, checked: Checked) -> dict[str, object]:
    """Returns the outcome of a topic, and the note."""
    note = submission.note[:NOTE_LENGTH] if submission.note else None
    if submission.status != "scored":
        return {"outcome": submission.status, "note": note}
    there = {"tree": checked.tree, "answer": checked.answer and checked.answer.strip()}.get(NEEDED[task])
    if there or (NEEDED[task] == "ranking" and checked.documents):
        return {"outcome": "scored", "note": note}
    removed = checked.unavailable + checked.duplicate
    why = f"{removed} of {removed} documents were removed" if removed else f"the {NEEDED[task]} is empty"
    return {"outcome": "empty", "note": note or why}
