"""Figures that may be mind-maps: those whose captions say so."""

import re

from tasks.corpus.figures.maps import ChosenFigures
from tasks.demo.standin.rule import Asked, answers

_SIGN = re.compile(r"taxonom|mind-?map|categori[sz]ation|classification of|overview of|structure of|organi[sz]", re.I)


@answers("caption_triage")
def caption_triage(asked: Asked) -> ChosenFigures:
    """Numbers of the captions with one of the signs."""
    return ChosenFigures(figures=[n for n, caption in enumerate(asked.all("captions"), 1) if _SIGN.search(caption)])
