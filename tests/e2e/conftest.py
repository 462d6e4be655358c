"""A real installation on loopback: server, workers, deployments, each a process of its own; and an undisturbed edition.

Screenshots and logs are kept under ARENA_E2E_OUT (default `build/e2e`), in a folder for each process of pytest.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest

from flows.server.deployments import CATALOGUE
from tasks.demo.release import SyntheticSettings, write_release
from tasks.demo.standin.server import NAME, StandIn, StandInSettings
from tasks.store.editions import Editions
from tasks.store.store import Store
from tasks.store.whole_files import write_record

REPOSITORY = Path(__file__).parents[2]
RELEASE = "2026-01-06"
PAPERS = 600
ENCODER = {"model": "all-MiniLM-L6-v2"}
CORPUS = {"buckets": 8}
INDEX = {"bm25_fields": ["abstract"], "dense_fields": ["abstract"], "encoder": ENCODER}

CANARY = "canary-7f1c-never-written"
"""Stands in every variable for a key."""

KEYS = ("S2_API_KEY", "ARENA_LLM_API_KEY", "OPENAI_API_KEY", "ARENA_OPENALEX_API_KEY")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")

QUESTIONS_AT_ONCE = 4
"""How many a language model is asked."""

REPORTED_TWICE_S = 15
"""Within so many seconds of a crash; a retry before that is lost with the second report."""

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 90_000
"""Milliseconds for a page: it loads megabytes of script, on machines that build beside it."""

ELSEWHERE = "elsewhere.example"
"""A name that the browser, and nothing else, takes for this machine."""

T = TypeVar("T")
Run = dict[str, Any]


def wait_for(what: str, look: Callable[[], T | None], seconds: float = 60, every: float = 0.2) -> T:
    """The first true answer of `look`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(every)
    pytest.fail(f"{what}: not within {seconds:.0f} s")


class PatientClient(httpx.Client):
    """Asks again, as Prefect's own clients do, while the server's SQLite is too busy to answer (503)."""

    def request(self, *arguments: Any, **options: Any) -> httpx.Response:
        for _ in range(9):
            if (answer := super().request(*arguments, **options)).status_code != 503:
                return answer
            time.sleep(2)
        return super().request(*arguments, **options)


class Site:
    """Server and workers on this machine, and what a maintainer does with them.

    Attributes:
        folder: Of everything.
        out: Where screenshots and logs are kept.
    """

    def __init__(self, folder: Path, out: Path) -> None:
        self.folder, self.out = folder, out
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = PatientClient(base_url=f"{self.url}/api", timeout=30)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "ARENA"))
        }
        self.environment |= {
            "PREFECT_API_URL": f"{self.url}/api",
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_UI_URL": self.url,
            "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
            "PYTHONPATH": str(REPOSITORY),
            "ARENA_ROOT": str(folder / "store"),
            "ARENA_RELEASES": str(folder / "releases"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        } | dict.fromkeys(KEYS, CANARY)
        self.server: subprocess.Popen[bytes] | None = None
        self.worker: subprocess.Popen[bytes] | None = None

    def spawn(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """A Python process in a group of its own, whose output is kept."""
        with (self.out / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def start_server(self) -> None:
        self.server = self.spawn(
            "server", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port)
        )
        wait_for("the server answers", self._healthy, 120)

    def _healthy(self) -> bool:
        try:
            return self.api.get("/health").status_code == 200
        except httpx.HTTPError:
            return False

    def start_worker(self) -> None:
        # Without --limit: a worker with one ends itself when a run is retried before it has noticed the run's end.
        self.worker = self.spawn("worker", "prefect", "worker", "start", "--pool", "cpu", "--type", "process")

    def arena(
        self, *arguments: str, root: Path | None = None, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """The command line, in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-c", "from flows.cli import main; main()", *arguments],
            env=self.environment | ({"ARENA_ROOT": str(root)} if root else {}),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def deployment(self, name: str) -> dict[str, Any]:
        (job,) = (job for job in CATALOGUE if job.name == name)
        return self.get(f"/deployments/name/{job.load().name}/{job.deployment}")

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self.api.request(method, path, **body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def start(self, name: str, parameters: dict[str, Any]) -> str:
        """Starts a run of a deployment as the UI does; returns its id."""
        created = self.post(f"/deployments/{self.deployment(name)['id']}/create_flow_run", {"parameters": parameters})
        return created["id"]

    def run(self, run: str) -> Run:
        return self.get(f"/flow_runs/{run}")

    def ended(self, run: str, seconds: float = 240) -> Run:
        """The run, once it has ended."""

        def look() -> Run | None:
            found = self.run(run)
            return found if found["state_type"] in ENDED else None

        return wait_for(f"run {run} ends", look, seconds)

    def brought_to_its_end(self, run: str) -> None:
        """Waits for the run, and retries it once when it did not complete."""
        if self.ended(run)["state_type"] != "COMPLETED":
            self.retry(run)
            self.completed(run)

    def completed(self, run: str, seconds: float = 240) -> Run:
        found = self.ended(run, seconds)
        assert found["state_type"] == "COMPLETED", found["state"]["message"]
        return found

    def retry(self, run: str) -> None:
        """Does what the button Retry does until the run is under way, once a worker has reported a crash twice."""
        time.sleep(REPORTED_TWICE_S)

        def look() -> bool:
            state = self.run(run)["state_type"]
            if state in ("CRASHED", "FAILED"):
                self.post(f"/flow_runs/{run}/set_state", {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}})
            return state in ("RUNNING", "COMPLETED")

        wait_for(f"the retry of run {run} begins", look, 120, every=1)

    def tasks(self, run: str) -> dict[str, str]:
        """States of the tasks of a run that has ended, by slot, the newest of each name.

        The server writes them down some time after the run told of them: what it says twice in a row is taken.
        """
        wanted = {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC"}
        seen: list[dict[str, str]] = [{}]

        def look() -> bool:
            seen.append({task["name"]: task["state_name"] for task in self.post("/task_runs/filter", wanted)})
            return seen[-1] == seen[-2] != {} and not {"Pending", "Running"} & set(seen[-1].values())

        wait_for(f"the states of the tasks of run {run}", look, every=2)
        return seen[-1]

    def artifacts(self, run: str) -> dict[str, Any]:
        found = self.post("/artifacts/filter", {"flow_runs": {"id": {"any_": [run]}}, "limit": 200})
        return {artifact["key"]: artifact for artifact in found}

    def flow_processes(self, worker: int | None = None) -> list[psutil.Process]:
        """The processes of flow runs that a worker started, with their children."""
        if worker is None:
            assert self.worker is not None, "no worker has been started"
            worker = self.worker.pid
        return psutil.Process(worker).children(recursive=True)

    def flow_process(self) -> psutil.Process:
        """The process of the only run that is under way."""
        found = [process for process in self.flow_processes() if "prefect" in " ".join(process.cmdline())]
        assert found
        return found[0]

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """kill -9 of one process, by its id."""
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def close(self) -> None:
        self.api.close()
        for process in (self.worker, self.server):
            if process is None:
                continue
            family = [process, *_children(process.pid)]
            for member in reversed(family):
                try:
                    member.terminate()
                except psutil.NoSuchProcess:
                    continue
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def _children(process: int) -> list[psutil.Process]:
    try:
        return psutil.Process(process).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture(scope="session")
def out() -> Path:
    base = Path(os.environ.get("ARENA_E2E_OUT") or REPOSITORY / "build" / "e2e").absolute()
    folder = base / os.environ.get("PYTEST_XDIST_WORKER", "")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser with an empty profile; while it is open, no other event loop can run in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}")
    arguments = [*ARGUMENTS, f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A language model that takes a moment for an answer, and writes down what it was asked."""
    log = tmp_path_factory.mktemp("stand-in") / "asked.jsonl"
    log.touch()
    with StandIn(StandInSettings(log=log, delay_s=0.2)) as server:
        yield server


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, out: Path, stand_in: StandIn) -> Iterator[Site]:
    """Server, one worker on pool cpu, all deployments there."""
    folder = tmp_path_factory.mktemp("site")
    write_release(folder / "releases", SyntheticSettings(papers=PAPERS))
    found = Site(folder, out)
    found.environment |= {
        "ARENA_LLM_BASE_URL": stand_in.url,
        "ARENA_LLM_PROVIDER": NAME,
        "ARENA_LLM_MODEL": NAME,
        "ARENA_LLM_SETTINGS": str(folder / "models.json"),
    }
    (folder / "models.json").write_text(json.dumps({"concurrency": QUESTIONS_AT_ONCE}))
    try:
        found.start_server()
        first = json.loads(found.arena("deploy", "--gpu-pool", "cpu", "--json").stdout)
        assert {change["what"] for change in first} <= {"created", "unchanged"}
        found.start_worker()
        yield found
    finally:
        found.close()


@pytest.fixture(scope="session")
def undisturbed(site: Site) -> Path:
    """A store with an edition that the plain command line built: corpus, BM25, embeddings."""
    root = site.folder / "undisturbed"
    site.arena("build", "--buckets", "8", "--workers", "1", root=root)
    site.arena("index", "--model", ENCODER["model"], "--workers", "1", root=root)
    return root


def slots(root: Path, edition: str = RELEASE) -> dict[str, dict[str, str]]:
    """What an edition holds."""
    return json.loads((root / "editions" / f"{edition}.json").read_text())["slots"]


def manifest(root: Path, slot: str, edition: str = RELEASE) -> dict[str, Any]:
    """The manifest of a slot's dataset."""
    ref = slots(root, edition)[slot]
    return json.loads((root / ref["stage"] / ref["key"] / "manifest.json").read_text())


@pytest.fixture(scope="session")
def copy_without(undisturbed: Path) -> Callable[[Path], Path]:
    """Copies the undisturbed store as it was before there was an embedding."""

    def copy(root: Path) -> Path:
        shutil.copytree(undisturbed, root)
        path = root / "editions" / f"{RELEASE}.json"
        edition = Editions(Store(root)).load(RELEASE)
        slots = dict(edition.slots)
        shutil.rmtree(root / "embeddings" / slots.pop("embeddings/abstract").key)
        write_record(path, edition.model_copy(update={"slots": slots}), copied=True)
        return root

    return copy


@pytest.fixture
def corpus_store(copy_without: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A store whose edition has a corpus and BM25, and no embedding."""
    return copy_without(tmp_path / "store")
