"""Heading Soft Recall and Heading Entity Recall: how much of a gold map's labels a predicted map has."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from schemas.errors import BadInput, MissingDependency

logger = logging.getLogger(__name__)

Embed: TypeAlias = Callable[[list[str]], npt.ArrayLike]
"""An encoder: n texts to n vectors (n, d), in their order; they need not be normalised."""

ILL_CONDITIONED = 0.1
"""A label whose cosines sum to less than this, in absolute value, dominates the cardinality of its set."""


class SoftRecall(NamedTuple):
    """A heading soft recall with the soft cardinalities behind it, and the row sum nearest to 0 (its conditioning)."""

    value: float
    golden: float
    predicted: float
    union: float
    min_abs_row_sum: float


def heading_soft_recall(golden: Collection[str], predicted: Collection[str], embed: Embed, clip: bool = False) -> float:
    """Return the share of the gold labels that the predicted labels cover, similar labels counting in part.

    The soft cardinality of a set counts each member as 1 over the sum of its cosines to all members, itself included.
    The intersection follows from the union: (card(G) + card(P) - card(G | P)) / card(G).

    Args:
        golden: labels of the gold map; equal strings are one label.
        predicted: labels of the predicted map, likewise.
        embed: an encoder, called once with the distinct labels of both maps.
        clip: cut the cosines to [0, 1], as the authors of soft cardinality want them.

    Returns:
        The recall; 0 without predicted labels. Negative cosines can carry it out of [0, 1] unless they are clipped.

    Raises:
        BadInput: no gold label; embeddings of a wrong shape, not finite or of length 0; row sums that cancel out.

    Source:
        STORM's evaluation (Shao et al., NAACL 2024), after the soft cardinality of Fränti and Mariescu-Istodor;
        ResearchArena (arXiv 2406.10291) takes it over.

    Deviations:
        Computed in float64, where STORM keeps the encoder's float32.
    """
    return soft_recall(golden, predicted, embed, clip).value


def soft_recall(golden: Collection[str], predicted: Collection[str], embed: Embed, clip: bool = False) -> SoftRecall:
    """Return `heading_soft_recall` with what it is made of; a row sum near 0 is logged as a warning."""
    if not golden:
        raise BadInput(
            "heading soft recall: there is no gold label, so it is undefined; leave this map out and count it"
        )
    place = {label: number for number, label in enumerate(dict.fromkeys([*golden, *predicted]))}
    cosine = _cosines(embed(list(place)), len(place))
    if clip:
        cosine = cosine.clip(0.0, 1.0)
    sides = [sorted({place[label] for label in side}) for side in (golden, predicted, place)]
    sums = [cosine[np.ix_(side, side)].sum(axis=1) for side in sides]
    smallest = float(min(np.abs(side).min() for side in sums if side.size))
    if smallest < ILL_CONDITIONED:
        logger.warning(
            "heading soft recall is ill-conditioned: a label's cosines sum to %.3g in absolute value", smallest
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        card_golden, card_predicted, card_union = (np.sum(1.0 / side) for side in sums)
        value = (card_golden + card_predicted - card_union) / card_golden
    if not np.isfinite(value):
        raise BadInput(
            "heading soft recall: cosines cancel out to a sum of 0, so it is undefined; clip=True avoids that"
        )
    return SoftRecall(float(value), float(card_golden), float(card_predicted), float(card_union), smallest)


def heading_entity_recall(golden_entities: Collection[str], predicted_entities: Collection[str]) -> float:
    """Return the share of the gold labels' entities that are among the predicted labels' entities, as equal strings.

    Args:
        golden_entities: entities found in the gold map's labels; repeats count once.
        predicted_entities: those of the predicted map, found by the same extractor.

    Returns:
        The recall in [0, 1]. It is 1 without gold entities, as in STORM. That lifts every system's mean, so
        `tree_scores` leaves such maps out of the mean and states their share.

    Source:
        STORM's evaluation (Shao et al., NAACL 2024).
    """
    golden = set(golden_entities)
    return len(golden.intersection(predicted_entities)) / len(golden) if golden else 1.0


class EntityExtractor(Protocol):
    """Finds the named entities in headings."""

    metric: ClassVar[str]
    """Name of the entity recall with this extractor; values under different names are not comparable."""

    def __call__(self, headings: Iterable[str]) -> set[str]:
        """Return the distinct entities of all headings, in lower case."""
        ...


@dataclass(frozen=True)
class FlairEntityExtractor:
    """Entities as FLAIR's English tagger finds them, each heading tagged as a sentence of its own.

    Args:
        model: a model on the Hugging Face hub (downloaded at first use) or a tagger's file. Loading one runs code that
            its author pickled: name only those you trust.
    """

    model: str = "flair/ner-english"

    metric: ClassVar[str] = "her"

    def __call__(self, headings: Iterable[str]) -> set[str]:
        """Return the distinct entities of all headings, in lower case; empty headings have none.

        Raises:
            MissingDependency: FLAIR is not installed.
            BadInput: the model cannot be had.
        """
        sentence_type, tagger = self._tagger
        sentences = [sentence_type(heading) for heading in filter(str.strip, headings)]
        if sentences:
            tagger.predict(sentences)
        spans = (span for sentence in sentences for span in sentence.get_spans(tagger.label_type))
        return {span.text.lower() for span in spans}

    def is_at_hand(self) -> bool:
        """Returns whether FLAIR is installed and its model is on this machine; logs it where only the model lacks."""
        if find_spec("flair") is None:
            return False
        if Path(self.model).exists() or self._is_downloaded():
            return True
        _warn_of_lacking(self.model)
        return False

    def _is_downloaded(self) -> bool:
        """Looks where FLAIR keeps the models that it has downloaded from the hub."""
        name, _, revision = self.model.partition("@")
        folder = import_module("flair").cache_root / "models" / name.partition("/")[2]
        look_up = import_module("huggingface_hub").try_to_load_from_cache
        found = look_up(name, "pytorch_model.bin", cache_dir=folder, revision=revision or "main")
        return isinstance(found, str)

    @cached_property
    def _tagger(self) -> tuple[Any, Any]:
        try:
            sentence_type, tagger_type = (
                import_module("flair.data").Sentence,
                import_module("flair.models").SequenceTagger,
            )
        except ImportError as error:
            raise MissingDependency("entity recall needs FLAIR: pip install 'research-arena[flair]'") from error
        try:
            return sentence_type, tagger_type.load(self.model)
        except (OSError, ValueError) as error:
            raise BadInput(f"FLAIR model {self.model!r} is neither a file nor on the hub: {error}") from error


@cache
def _warn_of_lacking(model: str) -> None:
    """Logs, once in a process, that a model is not on this machine."""
    logger.warning(
        "FLAIR is installed, but its model %s is not on this machine, so HER is left out; "
        "--entities flair downloads it",
        model,
    )


@dataclass(frozen=True)
class RuleEntityExtractor:
    """Entities by their spelling, for runs without FLAIR: a stand-in whose numbers are never mixed with FLAIR's.

    A name is a word with two capitals, or a capital and a digit (BERT, ImageNet, 5G); in a heading that is not in title
    case also a capitalised word behind the first. Neighbouring names are one entity. A heading in capitals has none.
    """

    metric: ClassVar[str] = "her_fallback"

    def __call__(self, headings: Iterable[str]) -> set[str]:
        """Return the distinct entities of all headings, in lower case."""
        return {entity.lower() for heading in headings for entity in _spelled_names(heading)}


_PARTICLES = frozenset({"based", "beyond", "from", "into", "over", "through", "under", "using", "with", "without"})
"""Longer words that title case leaves small."""


def _spelled_names(heading: str) -> Iterator[str]:
    words = re.findall(r"\w+(?:[.&'’/-]+\w+)*|[^\w\s]", heading)
    if heading.isupper() and sum(map(str.isupper, words)) > 1:
        return
    in_sentence_case = any(word.islower() and len(word) > 3 and word not in _PARTICLES for word in words[1:])
    run: list[str] = []
    for place, word in enumerate([*words, ""]):
        capitals, digits = sum(map(str.isupper, word)), sum(map(str.isdigit, word))
        named = capitals > 1 or (capitals and digits) or (in_sentence_case and place and word[:1].isupper())
        if named:
            run.append(word)
        elif run:
            yield " ".join(run)
            run = []


def _cosines(vectors: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
    """Return the cosines (count, count) of embeddings after a look at their form."""
    try:
        rows = np.asarray(vectors, np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"heading soft recall: the embeddings are no array of numbers: {error}") from error
    if rows.ndim != 2 or len(rows) != count:
        raise BadInput(
            f"heading soft recall: embeddings of shape {rows.shape} for {count} labels, expected ({count}, d)"
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if bad.size:
        raise BadInput(
            f"heading soft recall: {bad.size} of {count} embeddings are zero or not finite, the first is row {bad[0]}"
        )
    unit = rows / lengths
    return unit @ unit.T
