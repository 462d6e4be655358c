"""Environment variables: which ones the server and the workers of this machine get, and how a command sets its own.

A worker hands its environment to every run, and who may use the server's API can start runs. So a worker holds only
what flows need.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

# fmt: off
_SYSTEM = frozenset({
    "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TEMP", "TMP", "TMPDIR",
    "TZ", "USER", "VIRTUAL_ENV", "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy", "https_proxy",
    "http_proxy", "no_proxy", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
})
_FLOWS = frozenset({
    "OPENAI_API_KEY", "S2_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_API_URL", "PREFECT_HOME", "HF_ENDPOINT",
    "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "MPLBACKEND", "MPLCONFIGDIR", "POLARS_MAX_THREADS",
    "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE", "XDG_CACHE_HOME", "XDG_STATE_HOME",
})
# fmt: on
_SYSTEM_PREFIXES = ("LC_", "PREFECT_LOGGING_")
_FLOW_PREFIXES = ("ARENA_", "CUDA_", "MKL_", "NUMBA_", "NVIDIA_", "OMP_", "OPENBLAS_", "RAY_", "TORCH_")


def server_environment(environment: Mapping[str, str], **settings: str) -> dict[str, str]:
    """Returns the environment of a Prefect server: what any program needs, and its own settings."""
    return {name: value for name, value in environment.items() if _for_any_program(name)} | settings


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a worker and of its runs: what any program needs, and what flows read.

    A variable that a plug-in reads reaches a worker when its name begins with `ARENA_`.
    """
    return {name: value for name, value in environment.items() if for_flows(name)}


def for_flows(name: str) -> bool:
    """Returns whether flows get the variable."""
    return _for_any_program(name) or name in _FLOWS or name.startswith(_FLOW_PREFIXES)


def _for_any_program(name: str) -> bool:
    return name in _SYSTEM or name.startswith(_SYSTEM_PREFIXES)


@contextmanager
def replaced_variables(mine: Mapping[str, str], replaces: Callable[[str], bool]) -> Generator[None]:
    """Sets variables of this process in place of all whose name `replaces` accepts, until the context ends."""
    theirs = {name: value for name, value in os.environ.items() if replaces(name)}
    for name in theirs:
        del os.environ[name]
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            os.environ.pop(name, None)
        os.environ.update(theirs)
