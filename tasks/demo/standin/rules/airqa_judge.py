"""Judges by shared words: true if the answer has half of the reference's words."""

import re

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

_PIECE = re.compile(r"<(?P<name>[a-z-]+)-(?P<mark>[0-9a-f]{16})>\n(?P<text>.*?)\n</(?P=name)-(?P=mark)>", re.S)


@answers("airqa_judge")
def airqa_judge(asked: Asked) -> str:
    """Compares the answer with the rest of the message, without the question."""
    pieces = {piece["name"]: piece["text"] for piece in _PIECE.finditer(asked.text)}
    answer = set(subject_words(pieces.get("answer", "")))
    gold = {word for name, text in pieces.items() if name not in ("answer", "question") for word in subject_words(text)}
    verdict = bool(gold) and 2 * len(gold & answer) >= len(gold)
    return f"{len(gold & answer)} of {len(gold)} words are shared.\n\n```txt\n{verdict}\n```"
