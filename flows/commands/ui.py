"""`arena ui`: starts the server, workers and deployments on one machine, to try them out."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from flows.commands.demo import ENCODER
from flows.commands.options import Whole
from flows.commands.terminal import show_text
from flows.pipeline.site import SITE_URL
from flows.server.environment import worker_environment
from flows.server.local_server import AUTH_FILE, HOST, free_port, prefect_api, stop
from flows.server.settings import INSTALLATION
from tasks.demo.release import SyntheticSettings, write_release
from tasks.store.parent import END_WITH_WORKER, end_with_parent


def ui(
    *,
    folder: Path = Path("ui-demo"),
    port: Annotated[
        Whole,
        Parameter(help="Port of the server on 127.0.0.1; 0: any free port.", validator=Number(gte=0, lte=65_535)),
    ] = 4200,
    papers: Whole = 1_000,
) -> None:
    """Start the server, workers and deployments on this machine with a synthetic release, until Ctrl-C.

    The server accepts only requests that carry a random string, new at each start; the page asks for it. Workers get
    only the environment variables that flows need.

    Args:
        folder: Folder for the release, the store and the server's files.
        papers: Number of papers in the release.
    """
    folder = folder.absolute()
    for name in ("PREFECT_API_URL", SITE_URL, INSTALLATION):
        os.environ.pop(name, None)  # this set-up is for trying out: never change another server
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as running:
        show_text("starting the Prefect server")
        url = running.enter_context(prefect_api(folder / "prefect", port))
        show_text(f"writing a release of {papers} invented papers to {folder / 'releases'}")
        write_release(folder / "releases", SyntheticSettings(papers=papers))
        os.environ |= {"ARENA_ROOT": str(folder / "store"), "ARENA_RELEASES": str(folder / "releases")}
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        if find_spec("mcp") is None:
            show_text("links to reports need the extra serve: pip install 'research-arena[serve]'")
        else:
            os.environ[SITE_URL] = running.enter_context(served(folder / "prefect" / "serve.log"))
        _end_interrupted()
        running.callback(_end_interrupted)  # when the workers have stopped, and the server not yet
        show_text("setting up the deployments, and starting a worker of each pool")
        _set_up()
        for pool in ("cpu", "gpu"):
            running.enter_context(worker(pool, folder / "prefect" / f"worker-{pool}.log"))
        show_text(f"Prefect: {url.removesuffix('/api')} (Ctrl-C ends it)")
        if site := os.environ.get(SITE_URL):
            show_text(f"Reports: {site}")
        show_text(f"The page asks for this once: {(folder / 'prefect' / AUTH_FILE).read_text()}")
        show_text("A whole week: Deployments, arena-weekly, Quick run. Or: build-corpus, build-index, discovery.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            show_text("stopping the workers and the server")


def _end_interrupted() -> None:
    """Ends runs that have no process any more: a killed `arena ui` could not, nor could its workers."""
    from flows.server.interrupted import end_interrupted_runs

    for name in end_interrupted_runs():
        show_text(f"run {name} was interrupted; it can be retried")


def _set_up() -> None:
    """Sets up all deployments with parameters that need no network: the demo's encoder, releases from the folder."""
    from flows.server.deploy import deploy_to_server
    from flows.server.deployments import CATALOGUE

    index = {"encoder": ENCODER.model_dump()}
    offline = {"build-index": {"settings": index}, "weekly": {"settings": {"source": "mirror", "index": index}}}
    jobs = [job.model_copy(update={"parameters": offline.get(job.name, job.parameters)}) for job in CATALOGUE]
    deploy_to_server(jobs=jobs)


@contextmanager
def worker(pool: str, log: Path) -> Generator["subprocess.Popen[bytes]"]:
    """Runs a process worker of a pool in its own process group; its flow runs end with it."""
    with _running(log, "prefect", "worker", "start", "--pool", pool, "--type", "process") as process:
        yield process


@contextmanager
def served(log: Path) -> Generator[str]:
    """Runs `arena serve --pages` for the reports, and yields its address."""
    port = free_port(0)
    with _running(log, "flows.cli", "serve", "--pages", "--port", str(port)):
        yield f"http://{HOST}:{port}"


@contextmanager
def _running(log: Path, *module: str) -> Generator["subprocess.Popen[bytes]"]:
    """Runs a module in its own process group, with the environment of workers, until the context ends."""
    command = [sys.executable, "-m", *module]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Without a server, Prefect would hold a run for minutes at each call.
            env=worker_environment(os.environ) | {END_WITH_WORKER: "1"},
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        yield process
    finally:
        stop(process)
