"""Figures that others printed, for tables beside ours; read from `published.toml`, which says where they are from."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class PublishedRun(NamedTuple):
    """One row of ResearchArena's Tables 1 and 2 for one retriever; `dense` is BGE in the paper."""

    baseline: str
    retriever: str
    means: Mapping[str, float]


class PublishedTrees(NamedTuple):
    """One row of ResearchArena's Table 3; `references` is `oracle`, or who found them."""

    builder: str
    references: str
    soft_recall: float
    entity_recall: float
    distance: float


class PublishedModel(NamedTuple):
    """A row of AirQA's main table, by element tag."""

    system: str
    model: str
    text: float
    table: float
    image: float
    formula: float
    metadata: float
    all: float


class PublishedMethod(NamedTuple):
    """A row of AirQA's ablation of methods, by task and evaluation tag."""

    system: str
    single: float
    multiple: float
    retrieval: float
    subjective: float
    objective: float
    all: float


_FIGURES = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))

PUBLISHED = tuple(
    PublishedRun(baseline, retriever, dict(zip(_FIGURES["measures"], means, strict=True)))
    for baseline, retriever, means in _FIGURES["runs"]
)
PUBLISHED_TREES = tuple(PublishedTrees(*row) for row in _FIGURES["trees"])
PUBLISHED_MODELS = tuple(PublishedModel(*row) for row in _FIGURES["models"])
PUBLISHED_METHODS = tuple(PublishedMethod(*row) for row in _FIGURES["methods"])
