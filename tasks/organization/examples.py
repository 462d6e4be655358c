"""Chooses mind-maps of other surveys as examples for a model."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz import fuzz

from schemas.mindmap import clean_label
from schemas.topic import Topic

NEAR_IDENTICAL = 90.0
"""Two titles at least this similar (rapidfuzz's ratio, 0 to 100, ignoring case) are taken for the same survey."""


class Example(NamedTuple):
    """A survey with its mind-map; `tree` as in the table `mindmaps`."""

    topic_id: int
    title: str
    tree: str
    nodes: int


def choose_examples(
    pool: Sequence[Example], topic: Topic, seed: int, count: int = 3, max_nodes: int = 60
) -> tuple[Example, ...]:
    """Draws mind-maps of other surveys.

    Args:
        pool: Surveys with a map, in any order; the topic's own may be among them.
        topic: The survey that the examples are for.
        seed: Decides the draw, together with the topic's id.
        count: Number of examples; fewer when the pool has fewer.
        max_nodes: Larger maps are never drawn.

    Returns:
        Examples in the order drawn; none is of the topic itself or of a survey with a nearly identical title.

    Source: the few-shot baseline of ResearchArena (arXiv 2406.10291), which does not say how it draws.
    """
    candidates = sorted(example for example in pool if example.nodes <= max_nodes)
    random.Random(f"{seed}:{topic.topic_id}").shuffle(candidates)  # noqa: S311
    own = clean_label(topic.title).casefold()
    drawn: list[Example] = []
    for example in candidates:
        if len(drawn) == count:
            break
        alike = fuzz.ratio(clean_label(example.title).casefold(), own) >= NEAR_IDENTICAL
        if example.topic_id != topic.topic_id and not alike:
            drawn.append(example)
    return tuple(drawn)
