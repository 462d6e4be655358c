"""Computes an encoder's layers with 8-bit integers: about twice as fast on a CPU, with vectors that differ a little.

Only `tasks.index.encoder` imports this, when the precision is asked for: it needs torch and the extra `onnx`.

Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html (dynamic quantization).
"""

import logging
import tempfile
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnxruntime as ort
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer

INPUTS = ("input_ids", "attention_mask")
AXES = {0: "texts", 1: "tokens"}
OPSET = 17
CPU = ["CPUExecutionProvider"]


class _Exported(torch.nn.Module):
    """The layers of a model, with two inputs and one output."""

    def __init__(self, layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.layers(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class _Quantized(torch.nn.Module):
    """Stands where a model's layers were; attributes are those that sentence-transformers reads."""

    device = torch.device("cpu")

    def __init__(self, session: ort.InferenceSession, layers: torch.nn.Module) -> None:
        super().__init__()
        self.config, self._session = layers.config, session

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: object) -> dict[str, torch.Tensor]:
        words = self._session.run(None, {"input_ids": input_ids.numpy(), "attention_mask": attention_mask.numpy()})[0]
        return {"last_hidden_state": torch.from_numpy(words)}


def quantize(model: SentenceTransformer) -> None:
    """Replaces the layers of a model on the CPU by an 8-bit copy; tokenizer and pooling stay. Needs no network.

    The loaded layers are exported to ONNX, what is constant is folded, and the weights of matrix products become 8-bit
    integers with a scale for each output. The copy computes with as many threads as torch does now.
    """
    layers: Any = model[0].model
    with tempfile.TemporaryDirectory() as folder:
        exported, folded, small = (str(Path(folder) / f"{name}.onnx") for name in ("exported", "folded", "small"))
        _export(layers, model.preprocess(["one text", "another text that is longer"]), exported)
        folding = ort.SessionOptions()
        folding.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        folding.optimized_model_filepath = folded
        ort.InferenceSession(exported, folding, CPU)
        with _without_advice():
            quantize_dynamic(folded, small, per_channel=True, weight_type=QuantType.QInt8)
        data = Path(small).read_bytes()
    running = ort.SessionOptions()
    running.intra_op_num_threads = torch.get_num_threads()
    running.add_session_config_entry("session.intra_op.allow_spinning", "0")
    model[0].model = _Quantized(ort.InferenceSession(data, running, CPU), layers)


def _export(layers: torch.nn.Module, features: Mapping[str, torch.Tensor], path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's age, and of constants that are constant indeed
        torch.onnx.export(
            _Exported(layers).eval(),
            tuple(features[name] for name in INPUTS),
            path,
            dynamo=False,
            input_names=list(INPUTS),
            output_names=["words"],
            dynamic_axes=dict.fromkeys([*INPUTS, "words"], AXES),
            opset_version=OPSET,
        )


@contextmanager
def _without_advice() -> Generator[None]:
    """Keeps onnxruntime from advising, on the root logger, to do what was just done."""
    root = logging.getLogger()
    root.disabled, before = True, root.disabled
    try:
        yield
    finally:
        root.disabled = before
