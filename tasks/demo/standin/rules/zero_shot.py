"""Zero-Shot's query: the title without the words common to survey titles."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words


@answers("zero_shot")
def zero_shot(asked: Asked) -> str:
    """Returns the title itself if no other word is left."""
    title = asked.first("title")
    return " ".join(subject_words(title)) or title or "survey"
