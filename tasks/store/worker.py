"""A worker process: carries out the jobs that its parent sends, one at a time, until the parent ends.

It imports what its jobs name and nothing else, above all not the parent's main script.
"""

import os
import pickle
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing import process, spawn
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from tasks.store.parent import end_with_parent

KILLED_FIRST = "500"
"""The kernel's `oom_score_adj`: when memory runs out, it kills a worker rather than the command."""


class Order(NamedTuple):
    """What a parent sends: a job, and the surroundings that it needs.

    Attributes:
        job: A pickled function without arguments.
        only_load: Import what the job needs, and do not call it.
        environment: Variables of the parent.
        preparation: What `multiprocessing.spawn.prepare` sets: import path, folder, and the main script if the job's
            function is defined there.
    """

    job: bytes
    only_load: bool
    environment: dict[str, str]
    preparation: dict[str, Any]


def serve(connection: "Connection[Any, Any]") -> None:
    """Carries out orders until the parent closes the connection; answers each with None or the error it ended with."""
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        connection.send_bytes(_carry_out(order))


def _carry_out(order: Order) -> bytes:
    try:
        os.environ.update(order.environment)
        for name in os.environ.keys() - order.environment.keys():
            del os.environ[name]
        _prepare(order.preparation)
        job = pickle.loads(order.job)  # noqa: S301  from the parent
        if not order.only_load:
            job()
    except BaseException as error:
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return _pickled(error)
    return pickle.dumps(None)


def _prepare(preparation: dict[str, Any]) -> None:
    """Takes over the parent's surroundings; a build that the main script starts on import is refused by the store."""
    current: Any = process.current_process()
    current._inheriting = True
    try:
        spawn.prepare(preparation)
    finally:
        del current._inheriting


def _pickled(error: BaseException) -> bytes:
    with suppress(Exception):
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  made above
        return data
    return pickle.dumps(RuntimeError("".join(traceback.format_exception_only(error)).strip()))


def main() -> None:
    """Serves the parent; the arguments are the handle of the connection and the parent's process id."""
    handle, parent = map(int, sys.argv[1:])
    end_with_parent(signal.SIGKILL, parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which decides
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST)
    serve(Connection(handle))
