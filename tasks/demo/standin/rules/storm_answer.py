"""STORM's expert: the first sentence of each text with its number."""

import re

from tasks.demo.standin.rule import Asked, answers


@answers("storm_answer")
def storm_answer(asked: Asked) -> str:
    """Returns sentences up to a full stop; a text without one is replaced by its title."""
    sentences: list[str] = []
    for place, text in enumerate(asked.all("snippets"), 1):
        title, _, abstract = text.partition("\n")
        sentence = re.split(r"(?<=[.!?])\s", abstract.strip() or title, maxsplit=1)[0].rstrip(".!? ")
        sentences.append(f"{sentence} [{place}].")
    return " ".join(sentences)
