"""The worker processes of a command: started when first needed, and kept for all its stages."""

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cached_property
from multiprocessing import Pipe, spawn
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any

from tasks.store.worker import Order

Job = Callable[[], object]
"""Makes one shard; can be pickled, and may be called again when it was interrupted."""

WORKER = "from tasks.store.worker import main; main()"

SURROUNDINGS = ("sys_path", "sys_argv", "dir", "init_main_from_name", "init_main_from_path")
"""What a worker takes over from its parent, as `multiprocessing.spawn` names it."""


class WorkerProcess:
    """One worker process, as its parent sees it.

    Attributes:
        connection: Has something to read when an order has ended, or the process has.
        loading: Whether the process still imports what it was told to `load`.
    """

    def __init__(self, started: subprocess.Popen[bytes], connection: "Connection[Any, Any]") -> None:
        self._process = started
        self.connection = connection
        self.loading = False

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def load(self, job: Job) -> None:
        """Has the process import what a job needs, unless it is already importing."""
        if not self.loading:
            self._send(job, only_load=True)
            self.loading = True

    def start(self, job: Job) -> None:
        """Has the process carry out a job.

        Raises:
            BrokenExecutor: The process has died.
        """
        self._send(job, only_load=False)

    def _send(self, job: Job, only_load: bool) -> None:
        data = pickle.dumps(job)
        surroundings = {name: value for name, value in spawn.get_preparation_data("").items() if name in SURROUNDINGS}
        if b"__main__" not in data:  # nothing that the job names is in the main script
            surroundings = {name: value for name, value in surroundings.items() if not name.startswith("init_main")}
        try:
            self.connection.send(Order(data, only_load, dict(os.environ), surroundings))
        except OSError as error:
            raise self._died() from error

    def receive(self) -> None:
        """Waits until what the process was told to do has ended.

        Raises:
            BrokenExecutor: The process died. What the job raised passes unchanged.
        """
        self.loading = False
        try:
            error = pickle.loads(self.connection.recv_bytes())  # noqa: S301  from a child
        except (EOFError, OSError) as lost:
            raise self._died() from lost
        if error is not None:
            raise error

    def _died(self) -> BrokenExecutor:
        self.kill()
        return BrokenExecutor(f"worker process {self.pid} ended with exit status {self._process.returncode}")

    def end(self) -> None:
        """Ends the process, which waits for work, and waits for that."""
        self.connection.close()
        self._process.wait()

    def kill(self) -> None:
        """Kills the process and waits for its end; it writes nothing afterwards."""
        self._process.kill()
        self._process.wait()
        self.connection.close()


class ThisProcess:
    """This process as one that carries out orders: one at a time, in a thread beside the one that shares jobs out.

    Attributes:
        connection: Has something to read when an order has ended.
    """

    loading = False

    def __init__(self) -> None:
        self.connection, self._ended = Pipe(duplex=False)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, job: Job) -> None:
        """Begins with a job."""

        def run() -> None:
            try:
                job()
            except BaseException as error:
                self._error = error
            self._ended.send_bytes(b"\0")

        self._error = None
        context = copy_context()
        self._thread = threading.Thread(target=context.run, args=(run,), daemon=True)
        self._thread.start()

    def receive(self) -> None:
        """Waits until the job has ended; what it raised passes unchanged."""
        self.connection.recv_bytes()
        if self._error is not None:
            raise self._error

    def kill(self) -> None:
        """Waits for the end of the job, which is small."""
        if self._thread:
            self._thread.join()


class Team:
    """What works on the jobs of one stage.

    Attributes:
        members: The processes.
        running: The job that a process carries out.
    """

    def __init__(self) -> None:
        self.members: list[WorkerProcess] = []
        self.running: dict[WorkerProcess | ThisProcess, str] = {}

    @cached_property
    def here(self) -> ThisProcess:
        """This process, which may carry out jobs too."""
        return ThisProcess()

    @property
    def ready(self) -> bool:
        """Whether there are processes, and all of them have imported what jobs need."""
        return bool(self.members) and not any(worker.loading for worker in self.members)

    def feed(self, jobs: dict[str, Job]) -> None:
        """Gives every free process a job, and removes it from `jobs`."""
        for worker in self.members:
            if jobs and worker not in self.running and not worker.loading:
                self.running[worker] = name = next(iter(jobs))
                worker.start(jobs.pop(name))

    def start_here(self, name: str, job: Job) -> None:
        """Carries out a job in this process, which must be free."""
        self.running[self.here] = name
        self.here.start(job)

    def collect(self, timeout: float) -> list[str]:
        """Waits until a process has ended what it does, and returns the names of the jobs that have ended.

        Raises:
            BrokenExecutor: A process died. What a job raised passes unchanged.
        """
        workers = [self.here, *self.members]
        busy = {worker.connection: worker for worker in workers if worker.loading or worker in self.running}
        ended: list[str] = []
        for connection in wait(list(busy), timeout):
            worker = busy[connection]  # pyright: ignore[reportArgumentType]
            name = self.running.pop(worker, None)
            worker.receive()
            ended += [name] if name else []
        return ended

    def finish(self) -> None:
        """Waits until all jobs under way have ended, well or badly."""
        while self.running:
            worker, _ = self.running.popitem()
            with suppress(Exception):
                worker.receive()


class WorkerPool:
    """Lends worker processes; several threads may borrow at once. A forked process begins with an empty pool."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._started: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []
        self._wanted: SimpleQueue[Future[WorkerProcess]] | None = None

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.pid for worker in self._started if worker.alive]

    @property
    def idle(self) -> int:
        """Number of processes that wait for work."""
        return len(self._idle)

    @contextmanager
    def lend(self) -> Generator[Team]:
        """Lends a team, still without processes: see `enlist`.

        Afterwards no process writes. After an error the jobs under way end first, so that what they make is kept; after
        an interruption their processes are killed.
        """
        team = Team()
        try:
            yield team
        except Exception:
            team.finish()
            raise
        finally:
            for worker in team.running:
                worker.kill()
            with self._lock:
                self._idle += [worker for worker in team.members if worker.alive]

    def enlist(self, team: Team, number: int, job: Job) -> None:
        """Gives a team so many processes, which import what a job needs; starts those that are lacking."""
        with self._lock:
            self._started = [worker for worker in self._started if worker.alive]
            idle = [worker for worker in self._idle if worker.alive]
            team.members, self._idle = idle[:number], idle[number:]
            asked: list[Future[WorkerProcess]] = [Future() for _ in range(number - len(team.members))]
            if self._wanted is None:
                self._wanted = SimpleQueue()
                threading.Thread(target=_start_processes, args=(self._wanted,), daemon=True).start()
            for future in asked:
                self._wanted.put(future)
            new = [future.result() for future in asked]
            self._started += new
            team.members += new
        for worker in team.members:
            worker.load(job)

    def close(self) -> None:
        """Ends the processes that wait for work."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()


def _start_processes(wanted: "SimpleQueue[Future[WorkerProcess]]") -> None:
    """Starts processes. The kernel ends a process with the *thread* that started it, so this one never ends."""
    while True:
        future = wanted.get()
        ours, theirs = Pipe()
        try:
            started = subprocess.Popen(
                [sys.executable, "-c", WORKER, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            future.set_result(WorkerProcess(started, ours))
        except OSError as error:
            future.set_exception(error)
        theirs.close()
