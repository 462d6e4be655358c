"""Chooses the figures whose captions suggest a mind-map."""

import re

from tasks.corpus.figures.maps import ChosenFigures
from tasks.demo.standin.rule import Asked, answers

_SIGN = re.compile(r"taxonom|mind-?map|categori[sz]ation|classification of|overview of|structure of|organi[sz]", re.I)


@answers("caption_triage")
def caption_triage(asked: Asked) -> ChosenFigures:
    """Returns the numbers of the captions with one of the key words."""
    return ChosenFigures(figures=[n for n, caption in enumerate(asked.all("captions"), 1) if _SIGN.search(caption)])
