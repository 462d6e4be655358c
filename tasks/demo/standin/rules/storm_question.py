"""A persona's questions: one for each aspect of its interest, then thanks."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

ASPECTS = ("methods", "evaluation")


@answers("storm_question")
def storm_question(asked: Asked) -> str:
    """Returns the next question; the closing sentence is the last one of the instruction."""
    turn = len(asked.all("question"))
    if turn >= len(ASPECTS):
        return asked.text.rpartition("sentence: ")[2].strip()
    view = asked.first("persona").partition(":")[2]
    return f"Which {ASPECTS[turn]} are known for {' '.join(subject_words(view)[:6]) or 'the subject'}?"
