"""An answer from the material: the sentence that shares most words with the question."""

import re

from tasks.standin.rule import Asked, answers
from tasks.standin.words import subject_words

_SENTENCE = re.compile(r"[^.\n]+")


@answers("airqa_answer")
def airqa_answer(asked: Asked) -> str:
    """One fenced block; the first title, or a lone word, where there is nothing to read."""
    found = best_sentence(asked.first("question"), "\n".join(asked.all("material")))
    return f"The material says it.\n\n```txt\n{found or asked.first('titles') or 'unknown'}\n```"


def best_sentence(question: str, material: str) -> str:
    """The sentence that shares most words with the question, the earliest of equal ones; empty when none does."""
    wanted = set(subject_words(question))
    sentences = [part.strip() for part in _SENTENCE.findall(material)]
    shared = [len(wanted & set(subject_words(sentence))) for sentence in sentences]
    return sentences[shared.index(max(shared))] if any(shared) else ""
