"""Builds a mind-map from a title: its subject words, each with typical survey headings."""

from schemas.mindmap import MapAnswer
from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

HEADINGS = ("Methods", "Data and evaluation", "Applications", "Open problems")


@answers("few_shot_map")
def few_shot_map(asked: Asked) -> MapAnswer:
    """Returns the title as root, its subject words below, and four headings under each."""
    title = asked.first("title")
    words = [word.capitalize() for word in subject_words(title)[:4]]
    branches = {word: dict.fromkeys(f"{word} {heading.lower()}" for heading in HEADINGS) for word in words}
    return MapAnswer({title or "Survey": branches or dict.fromkeys(HEADINGS)})
