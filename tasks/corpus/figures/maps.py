"""Reads mind-maps off figures: chooses figures by caption, reads the tree in each, keeps the best of a survey."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx
from pydantic import BaseModel, ConfigDict

from schemas.errors import BadInput
from schemas.llm import UNANSWERED, Image, Reply
from schemas.mindmap import Tree, tree_shape
from schemas.mindmap_graphs import from_networkx
from tasks.corpus.mindmaps import map_problem
from tasks.llm.asker import Asker
from tasks.llm.filled_prompt import FilledPrompt
from tasks.llm.prompt import load_prompt

TRIAGE, TREE = "caption_triage", "figure_tree"

MAX_CAPTIONS = 60
"""Most captions of a survey that the model sees: the first ones."""


class ChosenFigures(BaseModel):
    """Numbers of the captions that may belong to a mind-map."""

    model_config = ConfigDict(extra="forbid", strict=True)

    figures: list[int]


class Topic(BaseModel):
    """A node of the tree in a picture; `parent`: the id of the node above, None at the top."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: int
    label: str
    parent: int | None


class FigureTree(BaseModel):
    """The tree in a picture, as a flat list of nodes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    shows_tree: bool
    nodes: list[Topic]

    def tree(self) -> Tree:
        """Returns the canonical tree.

        Raises:
            BadInput: Two nodes share an id, a parent is missing, there is a cycle, or no node has a label.
        """
        graph: nx.DiGraph[int] = nx.DiGraph()
        for topic in self.nodes:
            if topic.id in graph:
                raise BadInput(f"mind-map: two nodes have the id {topic.id}")
            graph.add_node(topic.id, label=topic.label)
        for topic in self.nodes:
            if topic.parent is not None and topic.parent not in graph:
                raise BadInput(f"mind-map: node {topic.id} hangs from {topic.parent}, which is not there")
        graph.add_edges_from((topic.parent, topic.id) for topic in self.nodes if topic.parent is not None)
        return from_networkx(graph)


class Shown(NamedTuple):
    """A figure of a survey without its picture."""

    figure: str
    caption: str | None
    image_sha256: str


@dataclass
class Reading:
    """The outcome of one figure; columns of table `figure_readings`."""

    shown: Shown
    outcome: str
    note: str | None = None
    tree: Tree | None = None
    raw: str | None = None
    prompt_id: str | None = None


@dataclass(frozen=True)
class Survey:
    """A survey with its figures in the order of their source; `load` returns the picture of one."""

    corpus_id: int
    title: str
    figures: Sequence[Shown]
    load: Callable[[str], Image]

    @property
    def captioned(self) -> list[Shown]:
        """The figures whose captions the model sees."""
        return [shown for shown in self.figures if shown.caption][:MAX_CAPTIONS]


class Rules(NamedTuple):
    """How many of a survey's chosen figures are read (the first ones), and the longest label in characters."""

    max_read: int
    max_label: int


def triage_question(survey: Survey) -> FilledPrompt[ChosenFigures]:
    """Returns the prompt that asks which captions may belong to a mind-map, for a survey that has captions."""
    captions = [shown.caption for shown in survey.captioned]
    return FilledPrompt(TRIAGE, {"title": survey.title, "captions": captions}, ChosenFigures)


def tree_question(survey: Survey, shown: Shown) -> FilledPrompt[FigureTree]:
    """Returns the prompt that asks which tree a figure shows."""
    values = {"title": survey.title, "caption": shown.caption or ""}
    return FilledPrompt(TREE, values, FigureTree, (survey.load(shown.figure),))


def read_figures(survey: Survey, asker: Asker, rules: Rules) -> list[Reading]:
    """Returns the model's reading of each figure of a survey, in order; at most one has the outcome `kept`.

    The map with the most nodes is kept, the first of equal ones.

    Raises:
        OverBudget: The budget does not allow reading every chosen figure.
    """
    readings = triage(survey, asker, rules.max_read)
    for reading in readings:
        if reading.outcome == "chosen":
            _read(reading, tree_question(survey, reading.shown).ask(asker), rules.max_label)
    maps = [
        (reading, tree_shape(reading.tree).nodes) for reading in readings if reading.outcome == "map" and reading.tree
    ]
    best = max(maps, key=lambda found: found[1], default=None)
    for found in maps:
        found[0].outcome = "kept" if found is best else "smaller_map"
    return readings


def triage(survey: Survey, asker: Asker, max_read: int) -> list[Reading]:
    """Returns a reading of every figure by its caption: at most `max_read` are `chosen`, the others say why not.

    One number that belongs to no caption makes the whole answer unusable.

    Raises:
        OverBudget: The budget does not allow the question.
    """
    captioned = survey.captioned
    if not captioned:
        return [Reading(shown, "no_caption") for shown in survey.figures]
    reply = triage_question(survey).ask(asker)
    numbers = set(reply.answer.figures) if reply.answer else set[int]()
    strange = numbers - set(range(1, len(captioned) + 1))
    note = reply.reason or (f"there is no figure {min(strange)}" if strange else None)
    prompt_id = load_prompt(TRIAGE).ref.name
    places = {shown.figure: number for number, shown in enumerate(captioned, 1)}
    readings: list[Reading] = []
    for shown in survey.figures:
        if shown.figure not in places:
            readings.append(Reading(shown, "not_asked" if shown.caption else "no_caption"))
        elif reply.answer is None or strange:
            readings.append(Reading(shown, "triage_failed", note, prompt_id=prompt_id))
        else:
            outcome = "chosen" if places[shown.figure] in numbers else "not_chosen"
            readings.append(Reading(shown, outcome, prompt_id=prompt_id))
    for reading in [reading for reading in readings if reading.outcome == "chosen"][max_read:]:
        reading.outcome = "not_read"
    return readings


def _read(reading: Reading, reply: Reply[FigureTree], max_label: int) -> None:
    """Fills a reading from the model's reply about the picture."""
    reading.prompt_id = load_prompt(TREE).ref.name
    reading.raw = reply.raw.decode("utf-8", "replace") or None
    reading.note = reply.reason or None
    reading.outcome = UNANSWERED.get(reply.outcome, "ok")
    if reply.answer is None:
        return
    if not reply.answer.shows_tree:
        reading.outcome = "no_map"
        return
    try:
        tree = reply.answer.tree()
    except BadInput as error:
        reading.outcome, reading.note = "bad_tree", str(error)
        return
    problem = map_problem(tree, max_label)
    reading.outcome = problem or "map"
    reading.tree = None if problem == "too_deep" else tree
