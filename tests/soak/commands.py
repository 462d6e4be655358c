"""Runs a command of the command line in a process of its own, lets a trial disturb it, and judges how it ended."""

import atexit
import os
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

PATIENCE_S = 240
"""A command that takes longer hangs; undisturbed, none takes a tenth of it on a quiet machine."""

_VERBS = (
    "accept add ask build change check choose close correct delete download fetch fill free give install leave "
    "lower make mend move name pass raise remove rename repair replace rerun restore retry run see set start "
    "stop switch take try use wait write"
)
_REMEDY = re.compile(rf"(?i)\b({_VERBS.replace(' ', '|')})\b|`arena |there are: ")
"""What a message that says what to do contains."""
_LONGEST = 2_000


class Finished(NamedTuple):
    """A command that has ended: exit code (negative: the signal), what it printed, and whether it left processes."""

    code: int
    out: str
    error: str
    left: int
    late: bool

    @property
    def complaint(self) -> str | None:
        """What is wrong with the way the command failed: none for one line with a remedy."""
        lines = [line for line in self.error.splitlines() if line.strip()]
        if self.late:
            return f"not ended within {PATIENCE_S} s"
        if self.left:
            return f"{self.left} processes left"
        if self.code < 0:
            return f"ended by signal {-self.code}"
        if not lines:
            return f"exit code {self.code} and no word"
        if "Traceback" in self.error:
            return self.error
        if len(lines[-1]) > _LONGEST:
            return f"a message of {len(lines[-1]):,} characters: {lines[-1][:300]}"
        told = lines[-1].partition(":")[2]
        if "--debug" in told or not _REMEDY.search(told):
            return f"no remedy: {lines[-1]}"
        return None

    @property
    def last_line(self) -> str:
        """The error message."""
        return next((line for line in reversed(self.error.splitlines()) if line.strip()), "")


class Running:
    """A command under way in a process group of its own; `root` is its store."""

    def __init__(self, process: int, root: Path) -> None:
        self.process, self.root = process, root
        self.code: int | None = None
        self.started = time.monotonic()

    def ended(self) -> bool:
        """Tells whether it has ended."""
        if self.code is None:
            found, status = os.waitpid(self.process, os.WNOHANG)
            if found:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def members(self) -> list[psutil.Process]:
        """Returns its child processes that are alive."""
        try:
            return psutil.Process(self.process).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def group(self) -> list[int]:
        """Returns the processes of its group that are alive, zombies aside."""
        alive: list[int] = []
        for process in psutil.process_iter(["status"]):
            try:
                if process.info["status"] != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) == self.process:
                    alive.append(process.pid)
            except (ProcessLookupError, psutil.Error):
                continue
        return alive

    def send(self, number: int) -> None:
        """Sends a signal to the command's own process, unless it has ended."""
        if not self.ended():
            os.kill(self.process, number)


Disturb = Callable[[Running], None]
"""Is called once while a command runs, and may take its time; it must return when the command has ended."""


def run_arena(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, disturb: Disturb | None = None
) -> Finished:
    """Runs the command line in a process forked from this one, which has the libraries loaded, until it ends."""
    out, error = folder / "stdout", folder / "stderr"
    process = os.fork()
    if process == 0:
        _become_arena(arguments, environment, folder, (out, error))
    running = Running(process, Path(environment["ARENA_ROOT"]))
    try:
        if disturb:
            disturb(running)
        while not running.ended() and time.monotonic() - running.started < PATIENCE_S:
            time.sleep(0.005)
        late = not running.ended()
        deadline = time.monotonic() + 10
        while running.group() and time.monotonic() < deadline and not late:
            time.sleep(0.05)
        left = 0 if late else len(running.group())
    finally:
        for straggler in running.group():
            os.kill(straggler, signal.SIGKILL)
        if running.code is None:
            running.code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    read = [path.read_text(encoding="utf-8", errors="replace") for path in (out, error)]
    return Finished(running.code, read[0], read[1], left, late)


def _become_arena(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, outputs: tuple[Path, Path]
) -> None:
    code: Any = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(folder)
        for descriptor, path in enumerate(outputs, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["arena", *arguments]
        sys.modules["__main__"] = types.ModuleType("__main__")
        from flows.cli import main

        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    except BaseException:  # the last frame of this process: whatever it is becomes its exit code
        import traceback

        traceback.print_exc()
    finally:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 1)
