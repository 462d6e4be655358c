"""Builds themes of the references, each named by the phrase that distinguishes it from its siblings; asks no model."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.metrics import silhouette_score

from schemas.mindmap import Tree, load_tree
from tasks.organization.builder import Material, Organized, builder

FEWEST, MOST = 3, 8
"""The smallest and the largest number of themes that a cut may have."""

SMALLEST_SPLIT = 6
"""A theme with fewer references is not cut again."""

LEVELS = 4
"""Levels of the tree, including the title."""

TITLE_WEIGHT = 2
"""A phrase in a title counts as much as in this many abstracts."""

LENGTH_BONUS = (0.5, 1.5, 1.7)
"""Weight of a phrase of one, two or three words."""

_SURVEY_WORDS = re.compile(
    r"\b(?:(?:a|an|the|comprehensive|systematic|brief|critical|recent|literature)\s+){0,4}(?:survey|review|overview)s?\b"
    r"(?:\s+(of|on|for)\b)?(?:\s+the\b)?",
    re.IGNORECASE,
)
_GENERIC = frozenset(
    {
        "ability", "able", "achieve", "algorithms", "applications", "approach", "approaches", "architecture", "art",
        "based", "better", "case", "challenges", "code", "collection", "complex", "datasets", "demonstrate",
        "different", "effective", "existing", "experimental", "experiments", "extensive", "framework", "future",
        "general", "high", "improve", "including", "introduce", "just", "large", "learn", "learning", "low",
        "method", "methods", "model", "models", "new", "novel", "outperform", "outperforms", "paper", "perform",
        "performance", "present", "problem", "propose", "proposed", "provide", "recent", "result", "results",
        "scale", "show", "shows", "significantly", "simple", "state", "state-of-the-art", "study", "task", "tasks",
        "train", "trained", "training", "understanding", "use", "used", "using", "various", "work", "works",
    }
)  # fmt: skip
"""Words that, by themselves, do not say what a paper is about."""

_INSIDE = ENGLISH_STOP_WORDS - {"of"}
"""Words that no phrase contains."""

Phrases = Counter[str]


class _Theme(NamedTuple):
    """Rows of references to cut into parts below a node, and the words that the labels there may not repeat."""

    rows: NDArray[np.intp]
    node: Tree
    level: int
    above: frozenset[str]


@builder("themes", "Themes by silhouette, named by class-based TF-IDF phrases.", needs=("references", "vectors"))
def themes(material: Material) -> Organized:
    """Returns the title's subject with themes and sub-themes of the references below it.

    Ward's clustering is cut where the mean silhouette (cosine) is highest; a theme of enough references is cut again.
    When there are few references, each one is a theme. A part without a phrase of its own is left out.

    Source:
        Rousseeuw 1987 (silhouettes); class-based TF-IDF as in BERTopic (Grootendorst, arXiv 2203.05794), over the
        share of a theme's references that hold a phrase.
    """
    references = material.references
    root = Tree(label=subject(material.topic.title), children=[])
    surfaces = _Surfaces()
    phrases = [surfaces.phrases(*texts) for texts in zip(references.titles, references.abstracts, strict=True)]
    stack = [_Theme(np.arange(len(phrases)), root, 1, _words(root["label"]))]
    while stack:
        theme = stack.pop()
        parts = _cut(references.vectors, theme) if theme.level < LEVELS else []
        names = _name([[phrases[row] for row in part] for part in parts], theme.above)
        for part, name in zip(parts, names, strict=True):
            if name is not None:
                node = Tree(label=surfaces.show(name), children=[])
                theme.node["children"].append(node)
                stack.append(_Theme(part, node, theme.level + 1, theme.above | _words(name)))
    return Organized(load_tree(root))


def subject(title: str) -> str:
    """Returns what a survey's title says it surveys, else the title without words such as "a survey of"."""
    for part in title.split(":"):
        said = _SURVEY_WORDS.search(part)
        about = part[said.end() :].strip() if said and said[1] else ""
        if set(about.casefold().split()) - _GENERIC - ENGLISH_STOP_WORDS:
            return about
    parts = (_SURVEY_WORDS.sub(" ", part).strip(" ,.-") for part in title.split(":"))
    return ": ".join(filter(None, parts)) or title


def _cut(vectors: NDArray[np.float32], theme: _Theme) -> list[NDArray[np.intp]]:
    """Returns the parts of a theme, larger ones first; nothing when there are too few references or all are alike."""
    rows = theme.rows
    if len(rows) < SMALLEST_SPLIT:
        return [rows[[place]] for place in range(len(rows))] if theme.level == 1 else []
    own = vectors[rows].astype(np.float64)
    merges, distances = linkage(own, "ward"), squareform(pdist(own, "cosine"))
    best, highest = np.ones(len(rows), np.intp), -math.inf
    for wanted in range(FEWEST, min(MOST, len(rows) - 1) + 1):
        labels = fcluster(merges, wanted, "maxclust")
        found = len(np.unique(labels))
        height = silhouette_score(distances, labels, metric="precomputed") if 1 < found < len(rows) else -math.inf
        if height > highest:
            best, highest = labels, height
    parts = [rows[best == label] for label in np.unique(best)]
    return sorted(parts, key=lambda part: (-len(part), part[0])) if len(parts) > 1 else []


def _name(parts: Sequence[Sequence[Phrases]], above: frozenset[str]) -> list[str | None]:
    """Returns a new and different phrase for each part; None for a part that has none left."""
    weights = [_sum(part) for part in parts]
    total = _sum(weights)
    mean = sum(len(part) for part in parts) / max(len(parts), 1)
    names: list[str | None] = []
    for part, own in zip(parts, weights, strict=True):
        shared = [phrase for phrase in own if _holders(phrase, part) >= min(2, len(part))] or own
        ranked = sorted(shared, key=lambda p: (-_worth(p, own[p] / len(part), mean / total[p]), p))
        taken = [_words(name) for name in names if name is not None]
        fresh = (p for p in ranked if not (new := _words(p)) <= above and new not in taken)
        names.append(next(fresh, None))
    return names


def _holders(phrase: str, part: Sequence[Phrases]) -> int:
    """Returns how many papers contain a phrase if one has it in its title, else 0."""
    weights = [paper[phrase] for paper in part if phrase in paper]
    return len(weights) if TITLE_WEIGHT in weights else 0


def _worth(phrase: str, share: float, rarity: float) -> float:
    return share * math.log(1 + rarity) * LENGTH_BONUS[phrase.count(" ")]


def _sum(parts: Iterable[Phrases]) -> Phrases:
    total: Phrases = Counter()
    for part in parts:
        total.update(part)
    return total


def _words(text: str) -> frozenset[str]:
    """Returns the words of a text in lower case, plurals like singulars."""
    return frozenset(word.removesuffix("s") for word in re.findall(r"\w+", text.casefold()))


class _Surfaces:
    """Collects phrases in lower case, with the ways in which each is written."""

    def __init__(self) -> None:
        self._written: dict[str, Counter[str]] = {}

    def phrases(self, title: str, abstract: str) -> Phrases:
        """Returns the phrases of a reference with their weights; those of its title weigh more."""
        found: Phrases = Counter()
        for text, weight in ((abstract, 1), (title, TITLE_WEIGHT)):
            for written in _ngrams(text):
                phrase = written.casefold()
                self._written.setdefault(phrase, Counter())[written] += 1
                found[phrase] = weight
        return found

    def show(self, phrase: str) -> str:
        """Returns the phrase as it is written most often; a word without any capital gets one."""
        forms = self._written[phrase]
        form = min(forms, key=lambda written: (-forms[written], written))
        return " ".join(word if any(map(str.isupper, word)) else word.capitalize() for word in form.split())


def _ngrams(text: str) -> Iterator[str]:
    """Yields runs of one to three words within a clause, without stop words but an inner `of`, and not all generic."""
    for clause in re.split(r"[.,;:!?]+\s|[()\[\]\"]|\s[-–—]\s|\n", text + " "):
        words = re.findall(r"\w[\w'’/+-]*", clause)
        plain = [word.casefold() for word in words]
        for start in range(len(words)):
            for end in range(start + 1, min(start + 3, len(words)) + 1):
                if _is_phrase(plain[start:end]):
                    yield " ".join(words[start:end])


def _is_phrase(words: Sequence[str]) -> bool:
    if "of" in (words[0], words[-1]) or all(word in _GENERIC for word in words):
        return False
    return not any(word in _INSIDE or word.isdigit() or len(word) < 2 for word in words)
