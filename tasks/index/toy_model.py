"""A toy encoder for benchmarks and examples: cheap, deterministic, without weights to install."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

TOY = "toy-384"
"""Name of the toy encoder, where a model is chosen."""

DIMENSIONS, WORDS = 384, 8192
_WORD = re.compile(r"\w+")


class ToyModel:
    """Stands in for a `SentenceTransformer`: the vector of a text is the sum of random vectors of its words.

    Words with equal CRC-32 modulo `WORDS` share a vector. Texts with the same words are near each other, so searches
    find something; the vectors know nothing about meaning, and no result may be reported with them.
    """

    max_seq_length = 512
    default_prompt_name = None

    @property
    def device(self) -> "torch.device":
        """The CPU."""
        import torch

        return torch.device("cpu")

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        return np.random.default_rng(384).standard_normal((WORDS, DIMENSIONS), dtype=np.float32)

    def state_dict(self) -> dict[str, "torch.Tensor"]:
        """Returns the vectors of the words, by whose digest the encoder is known."""
        import torch

        return {"words": torch.from_numpy(self._vectors)}

    def encode(self, texts: str | Sequence[str], **options: Any) -> NDArray[np.float32]:
        """Returns the vectors of texts, `(n, 384) float32`, or that of one text, `(384,) float32`."""
        if isinstance(texts, str):
            return self.encode([texts])[0]
        found = np.empty((len(texts), DIMENSIONS), np.float32)
        for place, text in enumerate(texts):
            words = _WORD.findall(text.lower())[: self.max_seq_length] or [""]
            counts = Counter(crc32(word.encode()) % WORDS for word in words)
            found[place] = np.fromiter(counts.values(), np.float32) @ self._vectors[list(counts)]
        return found
