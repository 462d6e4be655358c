"""Zero-Shot's query: the title without the words that any survey's title may hold."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words


@answers("zero_shot")
def zero_shot(asked: Asked) -> str:
    """Keeps the title where nothing else is left of it."""
    title = asked.first("title")
    return " ".join(subject_words(title)) or title or "survey"
