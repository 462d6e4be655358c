"""Encodes with several copies of a model, one on each GPU, and tokenises ahead of them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class Replicas:
    """Copies of one model, which take batches in turn.

    A GPU works while the next batch is put on the next GPU: nothing waits for a result before all batches are under
    way. A thread of its own tokenises, one batch at a time, because a tokenizer is not thread-safe.

    Args:
        models: The copies, each on its device.
    """

    def __init__(self, models: "Sequence[SentenceTransformer]") -> None:
        self._models = models

    def __len__(self) -> int:
        return len(self._models)

    def encode(self, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        """Returns vectors, `(n, dim) float32`, in the order of `texts`; the batches are those of the model alone."""
        import torch
        from sentence_transformers.util import batch_to_device, truncate_embeddings

        order = np.argsort([-len(text) for text in texts])
        batches = [order[start : start + batch_size] for start in range(0, len(texts), batch_size)]
        first, found = self._models[0], list[Any]()
        with ThreadPoolExecutor(1) as tokenizer, torch.inference_mode():
            features = tokenizer.map(lambda rows: first.preprocess([texts[row] for row in rows]), batches)
            for place, ahead in enumerate(features):
                model = self._models[place % len(self._models)]
                out = model(batch_to_device(ahead, model.device))["sentence_embedding"]
                found.append(truncate_embeddings(out, model.truncate_dim) if model.truncate_dim else out)
        vectors = np.concatenate([vectors.float().cpu().numpy() for vectors in found])
        return vectors[np.argsort(np.concatenate(batches))]
