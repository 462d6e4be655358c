"""STORM's improved outline: adds the most frequent words of the answers."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import frequent_words


@answers("storm_outline_improved")
def storm_outline_improved(asked: Asked) -> str:
    """Returns the outline with two more sections of three words each."""
    words = frequent_words(asked.all("answer"), 8)
    sections = [words[start : start + 4] for start in range(0, len(words), 4)]
    added = [
        "\n".join([f"# {first.capitalize()}", *(f"## {word.capitalize()}" for word in rest)])
        for first, *rest in sections
    ]
    return "\n".join([asked.first("outline"), *added])
