"""Runs the system of another package in a process of its own, and answers what it asks of desk and model."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from schemas.errors import ArenaError, BadInput, MissingDependency, UsageError
from schemas.llm import Demand
from schemas.messages import one_line
from schemas.settings import Isolate, OwnSettings
from schemas.topic import Topic
from tasks.ranking.baseline import Baseline, Kit, Ranking, System, collect_baselines, find_baseline, load_entry
from tasks.ranking.isolated.fence import SYSTEM, library_paths, overlapping
from tasks.ranking.isolated.values import (
    Value,
    pack_array,
    pack_reply,
    read_call,
    read_query,
    read_ranking,
)
from tasks.ranking.isolated.wire import Ended, Frame, TimedOut, Wire

log = logging.getLogger(__name__)

PATIENCE_S = 3600.0
"""Seconds that a system may take for a topic when nothing else is said."""

START_S = 120.0
"""Seconds that a foreign package may take to be loaded."""

KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Variables of the environment that a foreign process gets; keys and the store's folder are not among them."""

USUAL = OwnSettings()

_CALLS: Mapping[str, Callable[..., Any]] = {
    "search": lambda kit, query, k, engine: [list(hit) for hit in kit.desk.search(read_query(query), k, engine)],
    "read": lambda kit, ids: [list(document) for document in kit.desk.read(ids)],
    "references": lambda kit, *asked: list(kit.desk.references(*asked)),
    "citations": lambda kit, *asked: list(kit.desk.citations(*asked)),
    "ages": lambda kit, ids: kit.desk.ages(ids).tolist(),
    "vectors": lambda kit, ids, engine: pack_array(kit.desk.vectors(ids, engine)),
    "embed": lambda kit, texts, engine: pack_array(kit.desk.embed(texts, engine)),
    "vector_engines": lambda kit: list(kit.desk.vector_engines),
    "spaces": lambda kit: list(kit.desk.spaces),
    "terms": lambda kit, text: kit.desk.terms(text),
    "document_frequency": lambda kit, term: kit.desk.document_frequency(term),
    "require_allowed": lambda kit, ids: kit.desk.require_allowed(ids),
    "searches": lambda kit: [list(search) for search in kit.desk.searches],
    "steps": lambda kit: [list(step) for step in kit.desk.steps],
    "engines": lambda kit: list(kit.desk.engines),
    "primary": lambda kit: kit.desk.primary,
    "has_graph": lambda kit: kit.desk.has_graph,
    "has_terms": lambda kit: kit.desk.has_terms,
    "has_vectors": lambda kit: kit.desk.has_vectors,
    "n_documents": lambda kit: kit.desk.n_documents,
}
"""What a foreign process may ask beside a model's replies; nothing else of this process can be reached."""


def describe_package(entry: str) -> dict[str, Baseline]:
    """Returns the systems that an entry point of another package registers; its code runs in another process.

    Args:
        entry: `module` or `module:attribute`.

    Raises:
        MissingDependency: It cannot be loaded.
    """
    with _Child(entry) as child:
        if not child.fenced:
            log.warning("this kernel has no Landlock: %s has a process of its own, and can read files", entry)
        return {one["name"]: _baseline(entry, one) for one in child.registered}


def _baseline(entry: str, told: Value) -> Baseline:
    asks = Demand(*told["asks"]) if told["asks"] else None
    system = IsolatedSystem(entry, told["name"])
    return Baseline(
        str(told["name"]), str(told["description"]), system, int(told["version"]), asks, graph=bool(told["graph"])
    )


def place_system(name: str, own: OwnSettings | None, isolate: Isolate) -> System:
    """Returns the function that runs a registered system where it belongs: here, or in processes of its own.

    Args:
        name: The system.
        own: Its own settings; with a time limit, it has a process of its own in any case.
        isolate: Which systems have one.

    Raises:
        UsageError: There is no such system.
        MissingDependency: Its package cannot be loaded.
    """
    system, isolated = find_baseline(name).system, is_isolated(name, own, isolate)
    if not isolated:
        return _load_here(system.entry)[name].system if isinstance(system, IsolatedSystem) else system
    entry = system.entry if isinstance(system, IsolatedSystem) else system.__module__
    return _place_apart(entry, name, own.model_dump_json() if own else "")


def is_isolated(name: str, own: OwnSettings | None, isolate: Isolate) -> bool:
    """Returns whether a system runs in a process of its own."""
    is_foreign = isinstance(find_baseline(name).system, IsolatedSystem)
    return isolate == "always" or bool(own and own.timeout_s) or (isolate == "foreign" and is_foreign)


@cache
def _place_apart(entry: str, name: str, own: str) -> System:
    """Returns the same system for the same settings, so that its processes serve all shards of a run."""
    return IsolatedSystem(entry, name, OwnSettings.model_validate_json(own) if own else USUAL)


@cache
def _load_here(entry: str) -> dict[str, Baseline]:
    """Returns the systems of another package for which no process of their own is wanted; its code runs here."""
    return collect_baselines(lambda: load_entry(entry))


def require_apart(folder: Path) -> None:
    """Checks that a folder of the store is not among what a process of a foreign system may read.

    Raises:
        UsageError: It is.
    """
    if found := overlapping(folder, map(Path, (*SYSTEM, *map(str, library_paths(sys.path))))):
        raise UsageError(
            f"the store lies in {found}, which systems may read for their libraries; choose another --root"
        )


class IsolatedSystem:
    """A system that runs in processes of its own: one for each topic that is answered at the same time.

    Args:
        entry: Where its package registers it.
        name: Its name.
        own: What it may take and open beside the usual.
    """

    def __init__(self, entry: str, name: str, own: OwnSettings = USUAL) -> None:
        self.entry, self.name, self._own = entry, name, own
        self._patience = own.timeout_s or PATIENCE_S
        self._idle: list[_Child] = []
        self._lock = threading.Lock()

    def __call__(self, topic: Topic, kit: Kit) -> Ranking:
        """Runs the system for a topic.

        Raises:
            BadInput: The system failed, or took too long; a topic's outcome is then `failed`.
            ArenaError: Its model cannot be asked.
        """
        child = self._take()
        try:
            ranking = child.answer(self.name, topic, kit, monotonic() + self._patience)
        except TimedOut as error:
            child.close()
            raise BadInput(f"system {self.name} took more than {self._patience:g} s and was stopped") from error
        except Ended as error:
            raise BadInput(f"the process of system {self.name} ended: {child.close()}") from error
        except BaseException:
            child.close()
            raise
        with self._lock:
            self._idle.append(child)
        return ranking

    def _take(self) -> "_Child":
        with self._lock:
            while self._idle:
                if (child := self._idle.pop()).is_running:
                    return child
        return _Child(self.entry, self._own)


class _Child:
    """A process with a foreign package, which ends with this one.

    Raises:
        MissingDependency: The package cannot be loaded.
    """

    def __init__(self, entry: str, allowed: OwnSettings = USUAL) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="arena-system-"))
        ours, theirs = socket.socketpair()
        self._wire = Wire(ours)
        paths = [path for path in sys.path if path]
        environment = {name: value for name in KEPT if (value := os.environ.get(name))}
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(self._scratch), "TMPDIR": str(self._scratch)}
        with theirs, (self._scratch / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tasks.ranking.isolated.child", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
                cwd=self._scratch,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._end = weakref.finalize(self, _end, self._process, self._wire, self._scratch)
        readable = [*map(str, library_paths(paths)), *allowed.files]
        deadline = monotonic() + START_S
        try:
            self._wire.send(
                {"entry": entry, "readable": readable, "writable": str(self._scratch), "network": allowed.network},
                deadline,
            )
            told = self._wire.receive(deadline)
        except (Ended, TimedOut) as error:
            raise MissingDependency(
                f"{entry}: its process ended or hung while it was loaded: {self.close()}"
            ) from error
        if "error" in told:
            self.close()
            raise MissingDependency(f"{entry}: cannot be loaded ({told['error']}); repair or remove the package")
        self.registered: list[Value] = told["registered"]
        self.fenced = bool(told["fenced"])

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def answer(self, name: str, topic: Topic, kit: Kit, deadline: float) -> Ranking:
        """Has the system answer a topic, and serves its calls meanwhile."""
        asked: Frame = {"name": name, "topic": [topic.topic_id, topic.title, topic.horizon.isoformat()]}
        asked |= {"cutoff": kit.cutoff, "seed": kit.seed, "parameters": dict(kit.parameters), "model": bool(kit.asker)}
        self._wire.send(asked, deadline)
        while True:
            frame = self._wire.receive(deadline)
            match frame:
                case {"call": str(call), "arguments": list(arguments)}:
                    self._wire.send(_serve(kit, call, arguments), deadline)
                case {"ranking": {**ranking}}:
                    return read_ranking(ranking)
                case {"error": str(error)}:
                    return Ranking([], "failed", error)
                case _:
                    raise BadInput(f"system {name} sent a frame that is neither a call nor an answer")

    def close(self) -> str:
        """Kills the process with all that it started; returns the last line that it wrote about itself."""
        return self._end() or "it said nothing"

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(process: subprocess.Popen[bytes], wire: Wire, scratch: Path) -> str:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wire.close()
    errors = scratch / "stderr"
    lines = errors.read_bytes()[-2000:].decode(errors="replace").strip().splitlines() if errors.is_file() else []
    shutil.rmtree(scratch, ignore_errors=True)
    return one_line(lines[-1]) if lines else f"exit code {process.returncode}"


def _serve(kit: Kit, call: str, arguments: list[Any]) -> Frame:
    """Answers a call of the system: what it may ask and did wrongly is told to it; other errors end its topic.

    Raises:
        ArenaError: The model cannot be asked.
    """
    try:
        if call == "converse":
            messages, answer, further = read_call(arguments[0])
            return {"value": pack_reply(kit.model.converse(messages, answer, **further))}
        if call not in _CALLS:
            return {"error": f"desk: there is no call {call!r}"}
        return {"value": _CALLS[call](kit, *arguments)}
    except BadInput as error:
        return {"error": str(error)}
    except ArenaError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        return {"error": f"desk: call {call} has arguments that cannot be used ({type(error).__name__})"}
