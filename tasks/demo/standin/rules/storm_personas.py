"""STORM's personas: one for each related title, interested in its words."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words


@answers("storm_personas")
def storm_personas(asked: Asked) -> str:
    """Returns personas for the subject itself if there are no related titles."""
    titles = asked.all("related_titles") or asked.all("title")
    views = list(dict.fromkeys(" ".join(subject_words(title)[:6]) or "the subject" for title in titles))
    return "\n".join(f"{place}. Researcher {place}: {view}" for place, view in enumerate(views, 1))
