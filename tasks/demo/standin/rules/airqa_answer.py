"""An answer from the material: a title where one is asked for, else the sentence that shares most words."""

import re

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

_SENTENCE = re.compile(r"[^.\n]+")
_TITLE = re.compile(r"^(?P<title>[^|\n]+) \| .*\| paper [0-9a-f-]{36}$", re.M)


@answers("airqa_answer")
def airqa_answer(asked: Asked) -> str:
    """One fenced block; the first title, or a lone word, where there is nothing to read."""
    found = best_answer(asked, "\n".join(asked.all("material")))
    return f"The material says it.\n\n```txt\n{found or asked.first('titles') or 'unknown'}\n```"


def best_answer(asked: Asked, material: str) -> str:
    """The title of the first passage where a title is asked for, else the best sentence."""
    title = _TITLE.search(material) if "title" in asked.first("answer_format").lower() else None
    return title["title"] if title else best_sentence(asked.first("question"), material)


def best_sentence(question: str, material: str) -> str:
    """The sentence that shares most words with the question, the earliest of equal ones; empty when none does."""
    wanted = set(subject_words(question))
    sentences = [part.strip() for part in _SENTENCE.findall(_TITLE.sub("", material))]
    shared = [len(wanted & set(subject_words(sentence))) for sentence in sentences]
    return sentences[shared.index(max(shared))] if any(shared) else ""
