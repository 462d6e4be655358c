"""STORM's first outline: a section for each subject word."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words


@answers("storm_outline")
def storm_outline(asked: Asked) -> str:
    """Returns two subsections per section."""
    words = subject_words(asked.first("title"))[:5] or ["subject"]
    return "\n".join(f"# {word.capitalize()}\n## Methods of {word}\n## Evaluation of {word}" for word in words)
