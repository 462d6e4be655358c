"""The topics of an edition as a system from outside is asked them, and what it is told to do."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from schemas.errors import UsageError
from schemas.settings import TopicSubset
from schemas.submission import MOST_DOCUMENTS, Task
from schemas.topic import Topic
from tasks.paperqa.runs import read_questions
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.store.dataset import Dataset

SLOTS: Mapping[Task, tuple[str, ...]] = {
    "discovery": ("topics", "documents", "surveys"),
    "selection": ("topics", "documents", "surveys"),
    "organization": ("topics", "documents", "surveys", "mindmaps"),
    "paperqa": ("airqa/questions",),
}
"""The slots of an edition that a run is checked against."""

_CORPUS = (
    "Papers published on or after the horizon, other literature surveys and the survey itself do not exist for this "
    "topic."
)

INSTRUCTIONS: Mapping[Task, str] = {
    "discovery": (
        "You are given the title of a literature survey that is about to be written. Find the papers that it should "
        f"cite, and hand in a ranking of their corpus_ids, best first, at most {MOST_DOCUMENTS:,}. {_CORPUS}"
    ),
    "selection": (
        "You are given the title of a literature survey that is about to be written. Find the papers that it should "
        "cite, and rank those first on which the survey builds most: hand in their corpus_ids, best first, at most "
        f"{MOST_DOCUMENTS:,}. {_CORPUS}"
    ),
    "organization": (
        "You are given the title of a literature survey that is about to be written. Find the papers that it should "
        'cite, and hand in its mind-map: a tree of headings, each a node {"label": text, "children": [nodes]}. '
        f"{_CORPUS}"
    ),
    "paperqa": "Answer the question over the papers, in the form that it asks for, and hand in the answer.",
}
"""What a system is told for a topic of each task, beside the title."""


class Asked(NamedTuple):
    """A topic as a system from outside is asked it.

    Attributes:
        topic: Its name: the corpus_id of the survey, or the question's UUID, as text.
        title: Title of the survey, or the question.
        instructions: What to do.
        survey: The topic of a survey; None for a question.
    """

    topic: str
    title: str
    instructions: str
    survey: Topic | None = None


def asked_topics(task: Task, datasets: Mapping[str, Dataset], subset: TopicSubset | None = None) -> list[Asked]:
    """Returns the topics of a task, in ascending order of their names as numbers, or of questions as in the edition.

    Args:
        task: The task.
        datasets: The edition's datasets by slot; those of `SLOTS` are read.
        subset: A sample of the topics; None: all.

    Raises:
        UsageError: The edition cannot ask for the task, because it lacks a slot.
    """
    if missing := [slot for slot in SLOTS[task] if slot not in datasets]:
        raise UsageError(
            f"task {task}: the edition has no {', '.join(missing)}; choose an edition that has, or build it"
        )
    told = INSTRUCTIONS[task]
    if task == "paperqa":
        questions = [Asked(found.uuid, found.question, told) for found in read_questions(datasets["airqa/questions"])]
        return _sample(questions, subset)
    maps = datasets["mindmaps"] if task == "organization" else None
    rows = evaluated_topics(datasets["topics"], subset, maps).select("topic_id", "title", "horizon").iter_rows()
    return [Asked(str(topic.topic_id), topic.title, told, topic) for topic in map(Topic._make, rows)]


def _sample(questions: list[Asked], subset: TopicSubset | None) -> list[Asked]:
    """Draws a sample of questions, in their order; equal seeds draw equal questions."""
    if subset is None or subset.sample_topics is None:
        return questions
    drawn = sorted(questions, key=lambda asked: hashlib.sha256(f"{subset.seed}:{asked.topic}".encode()).digest())
    chosen = {asked.topic for asked in drawn[: subset.sample_topics]}
    return [asked for asked in questions if asked.topic in chosen]
