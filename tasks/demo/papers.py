"""Invents the papers of a synthetic release; each paper depends only on its number and the seed.

Papers come in blocks. In a block every area has one aspect, and the papers of one area and block have ranks and cite
papers of lower rank. A larger release therefore begins with the papers of a smaller one.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache
from random import Random
from typing import Literal, NamedTuple, TypeVar

from schemas.mindmap import Tree
from tasks.demo.words import WORDS

T = TypeVar("T")
Kind = Literal["paper", "survey", "questionnaire", "telescope"]
Precision = Literal["day", "year", "none"]
Match = Literal["entry", "mention", "none"]

RANKS = 80
"""Papers of one area in one block."""

FIRST_ID, ID_STEP = 10_000_000, 37
FIRST_YEAR, LAST_YEAR = 2008, 2025
MAX_REFERENCES = 60
ABSTRACT_SHARE, NO_REFERENCES_SHARE = 0.95, 0.04

UNCITED: tuple[Kind, ...] = ("questionnaire", "telescope")
"""Kinds of papers that cite nothing and are not cited."""

LINKS: tuple[tuple[Match, bool], ...] = (
    ("entry", True),
    ("mention", True),
    ("entry", False),
    ("none", True),
    ("none", False),
)
LINK_WEIGHTS = (65, 10, 8, 10, 7)
"""Relative frequency of each way in which a reference is linked: by entry or mention, and by the citations table."""


class Head(NamedTuple):
    """The part of a paper that other papers can cite; `published` is written only as precisely as `precision` says."""

    number: int
    corpus_id: int
    kind: Kind
    title: str
    authors: tuple[str, ...]
    published: date
    precision: Precision


class Reference(NamedTuple):
    """A cited paper: its mentions in the body, where its match is given, and whether `citations` has it."""

    head: Head
    mentions: int
    match: Match
    in_citations: bool


class Paper(NamedTuple):
    """A complete paper; `sections` (heading, paragraphs) are empty if it has no full text."""

    head: Head
    field: str
    venue: str
    abstract: str | None
    references: tuple[Reference, ...]
    sections: tuple[tuple[str, tuple[str, ...]], ...]


class _Fill(dict[str, str]):
    """Fills each slot of a pattern with a random word."""

    def __init__(self, random: Random, choices: dict[str, Sequence[str]]) -> None:
        super().__init__()
        self._random = random
        self._choices = choices

    def __missing__(self, slot: str) -> str:
        return pick(self._random, self._choices[slot])


def pick(random: Random, values: Sequence[T]) -> T:
    """Returns one of the values; faster than `Random.choice`."""
    return values[int(random.random() * len(values))]


def planted_references(number: int) -> list[int]:
    """Returns the numbers of the papers that a paper of a planted release cites, all in its area and block.

    A survey cites every paper of lower rank; a paper cites those whose rank is 1, 2, 4, 8, ... lower.
    """
    area, rank, block = _place(number)
    kind = _kind(area, rank)
    if kind in UNCITED:
        return []
    steps = range(1, rank + 1) if kind == "survey" else [1 << power for power in range(rank.bit_length())]
    return [_number(area, rank - step, block) for step in steps if _kind(area, rank - step) == "paper"]


class PaperGenerator:
    """Generates papers by number; a release consists of the first ones.

    Args:
        seed: Any integer.
        full_text_share: Share of papers with full text, 0 to 1.
        paragraphs: Number of paragraphs in a section.
        planted: Whether citations are those of `planted_references`. Papers of odd rank are then written in the words
            of another area, so that citations alone connect them with their own.
        survey_share: Share of the places of surveys that hold one, 0 to 1; ordinary papers take the others.
    """

    def __init__(
        self, seed: int, full_text_share: float, paragraphs: int, planted: bool = False, survey_share: float = 1
    ) -> None:
        self._seed = seed
        self._full_text_share = full_text_share
        self._paragraphs = paragraphs
        self._planted = planted
        self._survey_share = survey_share
        self.head = lru_cache(maxsize=16_384)(self._make_head)
        self._choices = lru_cache(maxsize=256)(self._make_choices)

    def _random(self, *parts: object) -> Random:
        return Random("/".join(map(str, (self._seed, *parts))))  # noqa: S311

    def _make_choices(self, area: int, block: int) -> dict[str, Sequence[str]]:
        """Returns the vocabulary of an area in a block."""
        random = self._random("topic", area, block)
        favourites = random.sample(WORDS.areas[area].words, 8)
        return {
            "name": WORDS.areas[area].names,
            "word": favourites,
            "other": WORDS.areas[area].words,
            "aspect": pick(random, WORDS.aspects),
            "system": ["".join(pick(random, WORDS.syllables) for _ in range(3)).capitalize() for _ in range(6)],
            "method": random.sample(WORDS.methods, 6),
            "adjective": WORDS.adjectives,
            "quality": WORDS.qualities,
            "people": WORDS.people,
            "theme": WORDS.themes,
            "number": [str(number) for number in range(2, 13)],
            "percent": [str(number) for number in range(3, 60)],
        }

    def _words(self, number: int) -> dict[str, Sequence[str]]:
        """Returns the vocabulary in which a paper is written."""
        area, rank, block = _place(number)
        disguised = self._planted and rank % 2 and _kind(area, rank) == "paper"
        return self._choices((area + len(WORDS.areas) // 2) % len(WORDS.areas) if disguised else area, block)

    def _make_head(self, number: int) -> Head:
        area, rank, _ = _place(number)
        random = self._random(number, "head")
        kind = _kind(area, rank)
        if kind == "survey" and self._survey_share < 1 and self._random(number, "kind").random() >= self._survey_share:
            kind = "paper"
        title = _sentence(pick(random, WORDS.titles[kind]), _Fill(random, self._words(number)))
        year = FIRST_YEAR + (LAST_YEAR - FIRST_YEAR) * rank // RANKS + random.randint(-3, 3) + 2 * (kind == "survey")
        year = min(LAST_YEAR, max(FIRST_YEAR, year))
        return Head(
            number,
            FIRST_ID + ID_STEP * number,
            kind,
            title,
            tuple(
                f"{pick(random, WORDS.given_names)} {pick(random, WORDS.family_names)}"
                for _ in range(random.randint(1, 5))
            ),
            date(year, 1, 1) + timedelta(days=random.randrange(365)),
            random.choices(("day", "year", "none"), (60, 36, 4))[0],
        )

    def paper(self, number: int) -> Paper:
        """Returns a paper by its number, from 0."""
        area = _place(number)[0]
        head = self.head(number)
        random = self._random(number, "paper")
        fill = _Fill(random, self._words(number))
        abstract = self._write(head, random, fill, 6) if random.random() < ABSTRACT_SHARE else None
        references = tuple(self._cite(head, random))
        has_text = random.random() < self._full_text_share
        field, venue = WORDS.fields.get(head.kind, (WORDS.areas[area].field, WORDS.areas[area].venue))
        sections = tuple(self._make_sections(head, random, fill)) if has_text else ()
        return Paper(head, field, venue, abstract, references, sections)

    def mindmap(self, number: int) -> Tree:
        """Returns the mind-map of a survey: methods with the objects they work on, on 3 to 5 levels."""
        area, _, block = _place(number)
        random = self._random(number, "mindmap")
        choices = self._choices(area, block)
        nouns = iter(random.sample(WORDS.areas[area].words, 12))
        top = _node(_sentence("{aspect} {name}", _Fill(random, choices)))
        for method in random.sample(choices["method"], random.randint(2, 4)):
            top["children"].append(branch := _node(method.capitalize()))
            branch["children"] = [_node(next(nouns).capitalize()) for _ in range(random.randint(1, 3))]
        deep = top["children"][0]["children"][0]
        for extra in range(random.randrange(3)):
            deep["children"].append(below := _node(f"{next(nouns, 'other').capitalize()} {extra + 1}"))
            deep = below
        return top

    def _write(self, head: Head, random: Random, fill: _Fill, sentences: int) -> str:
        patterns = WORDS.sentences[head.kind]
        return " ".join(_sentence(pick(random, patterns), fill) for _ in range(sentences))

    def _make_sections(self, head: Head, random: Random, fill: _Fill) -> Iterator[tuple[str, tuple[str, ...]]]:
        for heading in WORDS.sections:
            if head.kind == "survey" and heading in WORDS.result_sections:
                heading = _sentence("{method} for {word}", fill)
            yield heading, tuple(self._write(head, random, fill, 4) for _ in range(self._paragraphs))

    def _cite(self, head: Head, random: Random) -> Iterator[Reference]:
        """Yields references to lower ranks of the same area: many for a survey, a few for a paper."""
        if self._planted:
            yield from (Reference(self.head(number), 1, "entry", True) for number in planted_references(head.number))
            return
        area, rank, block = _place(head.number)
        if head.kind in UNCITED or random.random() < NO_REFERENCES_SHARE:
            return
        pool = [_number(area, lower, block) for lower in range(rank) if _kind(area, lower) in ("paper", "survey")]
        if block:
            pool += [_number(area, lower, random.randrange(block)) for lower in (1, 2)]
        most = int(0.7 * len(pool)) + 1 if head.kind == "survey" else random.randint(2, 7)
        for number in random.sample(pool, min(most, len(pool), MAX_REFERENCES)):
            match, in_citations = random.choices(LINKS, LINK_WEIGHTS)[0]
            mentions = random.choices((1, 2, 3, 5), (55, 25, 15, 5))[0]
            yield Reference(self.head(number), mentions, match, in_citations)


def _node(label: str) -> Tree:
    return Tree(label=label, children=[])


def _place(number: int) -> tuple[int, int, int]:
    """Returns area, rank and block of a paper."""
    block, inside = divmod(number, RANKS * len(WORDS.areas))
    rank, area = divmod(inside, len(WORDS.areas))
    return area, rank, block


def _number(area: int, rank: int, block: int) -> int:
    return (block * RANKS + rank) * len(WORDS.areas) + area


def _kind(area: int, rank: int) -> Kind:
    if rank % 16 == 11:
        return "survey"
    if rank % 32 == 5 and area % 3 == 0:
        return "questionnaire"
    return "telescope" if rank % 32 == 9 and area % 4 == 1 else "paper"


def _sentence(pattern: str, fill: _Fill) -> str:
    text = pattern.format_map(fill)
    return text[0].upper() + text[1:]
