"""A person's questions: one an aspect of what the person looks at, then thanks."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

ASPECTS = ("methods", "evaluation")


@answers("storm_question")
def storm_question(asked: Asked) -> str:
    """The sentence that ends the conversation is the last of the instruction."""
    turn = len(asked.all("question"))
    if turn >= len(ASPECTS):
        return asked.text.rpartition("alone: ")[2].strip()
    view = asked.first("persona").partition(":")[2]
    return f"Which {ASPECTS[turn]} are known for {' '.join(subject_words(view)[:6]) or 'the subject'}?"
