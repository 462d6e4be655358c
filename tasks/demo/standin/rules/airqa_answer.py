"""Answers from the material: a title if the question asks for one, else the sentence with the most shared words."""

import re

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

_SENTENCE = re.compile(r"[^.\n]+")
_TITLE = re.compile(r"^(?P<title>[^|\n]+) \| .*\| paper [0-9a-f-]{36}$", re.M)


@answers("airqa_answer")
def airqa_answer(asked: Asked) -> str:
    """Returns one fenced block; the first title or a single word if there is no material."""
    found = best_answer(asked, "\n".join(asked.all("material")))
    return f"The material says it.\n\n```txt\n{found or asked.first('titles') or 'unknown'}\n```"


def best_answer(asked: Asked, material: str) -> str:
    """Returns the title of the first passage if a title is asked for, else the best sentence."""
    title = _TITLE.search(material) if "title" in asked.first("answer_format").lower() else None
    return title["title"] if title else best_sentence(asked.first("question"), material)


def best_sentence(question: str, material: str) -> str:
    """Returns the first sentence with the most words shared with the question; empty if no word is shared."""
    wanted = set(subject_words(question))
    sentences = [part.strip() for part in _SENTENCE.findall(_TITLE.sub("", material))]
    shared = [len(wanted & set(subject_words(sentence))) for sentence in sentences]
    return sentences[shared.index(max(shared))] if any(shared) else ""
