"""Server, workers and deployments on one machine, for looking and trying: `arena ui`."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.demo import ENCODER
from flows.commands.terminal import show_text
from flows.server.local_server import end_with_parent, prefect_api, stop
from tasks.demo.release import SyntheticSettings, write_release


def ui(
    *,
    folder: Path = Path("demo"),
    port: Annotated[int, Parameter(help="Of the server, on 127.0.0.1; 0: any that is free.")] = 4200,
    papers: int = 1_000,
) -> None:
    """Start server, workers and deployments on this machine with the demo's release, until Ctrl-C.

    Args:
        folder: Folder for the release, the store and the server's files.
        papers: Number of papers in the release.
    """
    folder = folder.absolute()
    write_release(folder / "releases", SyntheticSettings(papers=papers))
    os.environ |= {"ARENA_ROOT": str(folder / "store"), "ARENA_RELEASES": str(folder / "releases")}
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.pop("PREFECT_API_URL", None)  # never another server: what is set up here is for trying
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as running:
        url = running.enter_context(prefect_api(folder / "prefect", port))
        _set_up()
        for pool in ("cpu", "gpu"):
            running.enter_context(worker(pool, folder / "prefect" / f"worker-{pool}.log"))
        show_text(f"Prefect: {url.removesuffix('/api')} (Ctrl-C ends it)")
        show_text(
            "Deployments, weekly, Quick run: all of a week; or build-corpus, then build-index, discovery, selection."
        )
        try:
            signal.pause()
        except KeyboardInterrupt:
            show_text("ending workers and server")


def _set_up() -> None:
    """The catalogue, prefilled so that nothing needs a network: the demo's encoder, releases from the folder."""
    from flows.server.deploy import deploy_to_server
    from flows.server.deployments import CATALOGUE

    index = {"encoder": ENCODER.model_dump()}
    offline = {"build-index": {"settings": index}, "weekly": {"settings": {"source": "mirror", "index": index}}}
    jobs = [job.model_copy(update={"parameters": offline.get(job.name, job.parameters)}) for job in CATALOGUE]
    deploy_to_server(jobs=jobs)


@contextmanager
def worker(pool: str, log: Path) -> Generator["subprocess.Popen[bytes]"]:
    """A process worker of a pool in a group of its own; its runs end with it."""
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=end_with_parent
        )
    try:
        yield process
    finally:
        stop(process)
