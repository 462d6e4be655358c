"""Finds acronyms and their long forms in the papers that a search found."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

DEFINED = 2
"""Papers that must define an acronym in the same way."""

_ACRONYM = re.compile(r"(?=.*[A-Za-z])(?=.+[A-Z\d])[A-Za-z\d][\w&/.-]{1,9}")
_BRACKETS = re.compile(r"\(([^()]{2,40})\)")
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


class Definition(NamedTuple):
    """An acronym and its long form, as a paper writes them."""

    acronym: str
    long_form: str


def find_definitions(text: str) -> Iterator[Definition]:
    """Yields the acronyms that a text defines in the form `long form (ACRONYM)`.

    Source:
        Schwartz and Hearst, A simple algorithm for identifying abbreviation definitions in biomedical text, PSB 2003.
        An acronym has 2 to 10 characters, begins with a letter or digit, and has a letter. The long form is the
        shortest run of words before it that has the acronym's characters in order and begins with the first of them;
        it has at most min(n + 5, 2 n) words for an acronym of n characters.

    Deviates:
        An acronym is one word, and its second or a later character is a capital or a digit: `(see)` is none.
    """
    for match in _BRACKETS.finditer(text):
        acronym = match[1].strip()
        if not _ACRONYM.fullmatch(acronym):
            continue
        sentence = re.split(r"[.;:!?)]\s", text[: match.start()])[-1]
        before = sentence.split()[-min(len(acronym) + 5, 2 * len(acronym)) :]
        if long_form := _long_form(acronym, " ".join(before)):
            yield Definition(acronym, long_form)


def _long_form(acronym: str, before: str) -> str | None:
    """Returns the shortest end of a text that spells the acronym, or None."""
    place = len(before)
    letters = [character.lower() for character in acronym if character.isalnum()]
    for index in range(len(letters) - 1, -1, -1):
        place -= 1
        while place >= 0 and not (
            before[place].lower() == letters[index] and (index > 0 or place == 0 or not before[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return None
    found = before[place:].strip()
    return found if len(found.split()) >= 2 or "-" in found else None


def other_forms(title: str, texts: Iterable[str]) -> list[str]:
    """Returns what the title's acronyms stand for, and acronyms of its long forms, as the texts define them.

    Of several long forms of an acronym, the one that most texts give counts; `DEFINED` texts must give it.

    Args:
        title: The title of a topic, in any case.
        texts: Titles and abstracts of papers that a search for it found.

    Returns:
        Long forms and acronyms in lower case, sorted, each once, without those that the title has.
    """
    votes: Counter[Definition] = Counter()
    written: dict[Definition, Counter[str]] = {}
    for text in texts:
        found = {Definition(_normal(each.acronym), _normal(each.long_form)): each for each in find_definitions(text)}
        votes.update(list(found))
        for definition, each in found.items():
            written.setdefault(definition, Counter())[each.long_form.lower()] += 1
    best: dict[str, Definition] = {}
    for definition, number in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        if number >= DEFINED:
            best.setdefault(definition.acronym, definition)
    words = _normal(title).split()
    short = {acronym for acronym, (_, long_form) in best.items() if _within(long_form.split(), words)}
    long = {
        min(written[each].items(), key=lambda form: (-form[1], form[0]))[0]
        for each in best.values()
        if each.acronym in words
    }
    return sorted(form for form in short | long if not _within(_normal(form).split(), words))


def _singular(word: str) -> str:
    """Returns an acronym or word without the s of a plural."""
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def _normal(text: str) -> str:
    return " ".join(_singular(word) for word in _WORD.findall(text.lower().replace("-", " ")))


def _within(part: Sequence[str], words: Sequence[str]) -> bool:
    """Returns whether words follow each other in a text."""
    return any(words[start : start + len(part)] == list(part) for start in range(len(words) - len(part) + 1))
