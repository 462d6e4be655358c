"""An answer: the first sentence of each text, with its number."""

import re

from tasks.demo.standin.rule import Asked, answers


@answers("storm_answer")
def storm_answer(asked: Asked) -> str:
    """Sentences end at a full stop; the title stands for a text without one."""
    sentences: list[str] = []
    for place, text in enumerate(asked.all("snippets"), 1):
        title, _, abstract = text.partition("\n")
        sentence = re.split(r"(?<=[.!?])\s", abstract.strip() or title, maxsplit=1)[0].rstrip(".!? ")
        sentences.append(f"{sentence} [{place}].")
    return " ".join(sentences)
