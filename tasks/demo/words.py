"""The word lists and sentence patterns of the synthetic release, read from `words.toml`."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

Texts = tuple[str, ...]


class Area(NamedTuple):
    """A research area: names that mean the same, its words, its field of study and its venue."""

    names: Texts
    words: Texts
    field: str
    venue: str


class Words(NamedTuple):
    """All lists; patterns, fields and venues by kind of paper."""

    areas: tuple[Area, ...]
    aspects: tuple[Texts, ...]
    adjectives: Texts
    methods: Texts
    qualities: Texts
    people: Texts
    themes: Texts
    sections: Texts
    result_sections: Texts
    given_names: Texts
    family_names: Texts
    syllables: Texts
    sentences: dict[str, Texts]
    titles: dict[str, Texts]
    fields: dict[str, tuple[str, str]]


WORDS = TypeAdapter(Words).validate_python(
    tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
)
