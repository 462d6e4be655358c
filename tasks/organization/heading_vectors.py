"""Embeds headings; each distinct text is embedded once."""

import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.settings import EncoderSettings

log = logging.getLogger(__name__)

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Maps n texts to vectors `(n, dim)`, in their order."""

LABEL_ENCODER = EncoderSettings(model="paraphrase-MiniLM-L6-v2", max_tokens=128)
"""The encoder of STORM's evaluation, which this project takes for the paper's "Sentence-BERT"."""


def label_encoder(model: str) -> EncoderSettings:
    """Returns the settings of another encoder of headings, with the usual limit on tokens."""
    return LABEL_ENCODER.model_copy(update={"model": model})


CAPACITY = 200_000
"""Labels that are remembered; a fuller cache is emptied."""


class LabelVectors:
    """Embeds labels and remembers their vectors.

    Args:
        encode: The encoder.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, NDArray[np.float32]] = {}

    def prepare(self, labels: Iterable[str]) -> None:
        """Embeds labels ahead of use, in one batch. A failure is only logged: `of` raises it for the label at fault."""
        try:
            self._learn(labels)
        except Exception:
            log.warning("the labels cannot be embedded in one batch; embedding them topic by topic", exc_info=True)

    def of(self, labels: Sequence[str]) -> NDArray[np.float32]:
        """Returns the vectors of labels, `(n, dim)`, in their order.

        Raises:
            BadInput: The encoder did not return one vector per text. Its own errors pass unchanged.
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
            raise BadInput(
                f"labels: the encoder gave {vectors.shape} vectors for {len(missing)} texts; check the encoder"
            )
        self._known.update(zip(missing, vectors, strict=True))
