"""Vectors of headings, each distinct text embedded once."""

import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.settings import EncoderSettings

log = logging.getLogger(__name__)

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""n texts to `(n, dim)`, in their order."""

LABEL_ENCODER = EncoderSettings(model="paraphrase-MiniLM-L6-v2", max_tokens=128)
"""The encoder of STORM's evaluation: what "Sentence-BERT" in the paper is taken to be."""


def label_encoder(model: str) -> EncoderSettings:
    """Another encoder of headings, cut as the usual one is."""
    return LABEL_ENCODER.model_copy(update={"model": model})


CAPACITY = 200_000
"""Labels that are kept; beyond, the cache starts anew."""


class LabelVectors:
    """Embeds labels and remembers them.

    Args:
        encode: The encoder.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, NDArray[np.float32]] = {}

    def prepare(self, labels: Iterable[str]) -> None:
        """Embeds labels ahead, in one batch; when that fails, those that ask for the label at fault will see it."""
        try:
            self._learn(labels)
        except Exception:
            log.warning("labels cannot be embedded together; they are embedded topic by topic", exc_info=True)

    def of(self, labels: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of labels, `(n, dim)`, in their order.

        Raises:
            BadInput: The encoder gave another number of vectors than it was given texts; whatever else it raises.
        """
        self._learn(labels)
        return np.array([self._known[label] for label in labels])

    def _learn(self, labels: Iterable[str]) -> None:
        asked = dict.fromkeys(labels)
        if len(self._known) > CAPACITY:
            self._known = {label: vector for label, vector in self._known.items() if label in asked}
        missing = [label for label in asked if label not in self._known]
        if not missing:
            return
        vectors = np.asarray(self._encode(missing))
        if vectors.ndim != 2 or len(vectors) != len(missing):
            raise BadInput(f"labels: {len(missing)} texts gave vectors of shape {vectors.shape}; look at the encoder")
        self._known.update(zip(missing, vectors, strict=True))
