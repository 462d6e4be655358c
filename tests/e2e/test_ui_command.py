"""`arena ui`: one command starts everything; only who holds its string can use it; Ctrl-C ends everything."""

import functools
import json
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
import pytest
import websockets.exceptions
import websockets.sync.client

from flows.server.deployments import CATALOGUE
from tests.e2e.conftest import CANARY, ELSEWHERE, ENDED, PATIENCE, PatientClient, Site, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

PLANTED = {"GITHUB_TOKEN": "planted-3b1d", "PREFECT_SERVER_API_AUTH_STRING": "planted:other", "MY_BANK": "planted-9a0c"}
"""Secrets of the shell that no flow needs."""

COMMAND = [sys.executable, "-c", "from flows.cli import main; main()", "ui", "--papers", "200", "--port"]

ATTACK = """
async ([url, auth, deployment]) => {
  const json = {"Content-Type": "application/json"}, known = {...json, Authorization: `Basic ${btoa(auth)}`};
  const steps = [{"prefect.deployments.steps.run_shell_script": {script: "id"}}];
  const tries = [];
  for (const [headers, mode] of [[json, "cors"], [known, "cors"], [{"Content-Type": "text/plain"}, "no-cors"]])
    for (const [path, body] of [
      ["/flows/", {name: "theirs"}],
      [`/deployments/${deployment}/create_flow_run`, {}],
      [`/deployments/${deployment}`, {pull_steps: steps}],
    ])
      tries.push(fetch(url + path, {
        method: path.endsWith(deployment) && mode == "cors" ? "PATCH" : "POST",
        mode, headers, credentials: "include", body: JSON.stringify(body),
      }).then(answer => answer.status, error => String(error)));
  const form = Object.assign(document.createElement("form"), {
    method: "POST", action: `${url}/deployments/${deployment}/create_flow_run`, target: "frame", enctype: "text/plain",
  });
  const frame = Object.assign(document.createElement("iframe"), {name: "frame"});
  document.body.append(frame, form);
  form.append(Object.assign(document.createElement("input"), {name: '{"a":"', value: '"}'}));
  const sent = new Promise(resolve => frame.addEventListener("load", resolve));
  form.submit();
  const socket = new Promise(resolve => {
    const opened = new WebSocket(url.replace("http", "ws") + "/events/in");
    opened.onopen = () => resolve("open");
    opened.onerror = opened.onclose = () => resolve("closed");
  });
  await sent;
  return {answers: await Promise.all(tries), socket: await socket};
}
"""
"""Tries, from a page, to make the server run something. Answers: HTTP status, 0 where it is hidden, or the error."""


class Running(NamedTuple):
    """`arena ui`, up and running."""

    process: "subprocess.Popen[str]"
    folder: Path
    url: str
    auth: str

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]

    def client(self, **how: Any) -> httpx.Client:
        return PatientClient(base_url=f"{self.url}/api", timeout=30, **how)

    def with_auth(self) -> httpx.Client:
        name, _, password = self.auth.partition(":")
        return self.client(auth=(name, password))

    def contents(self) -> dict[str, Any]:
        """What an attacker would change: names of the flows, and every deployment and run."""
        with self.with_auth() as api:
            flows, deployments, runs = (
                api.post(f"/{kind}/filter", json={}).json() for kind in ("flows", "deployments", "flow_runs")
            )
        return {
            "flows": {flow["name"] for flow in flows},
            "deployments": {
                entry["id"]: (entry["name"], entry["pull_steps"], entry["paused"]) for entry in deployments
            },
            "runs by hand": [run["id"] for run in runs if not run["auto_scheduled"]],
        }


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, out: Path) -> dict[str, str]:
    """That of a shell with secrets in it, and without a Prefect server."""
    theirs = Site(tmp_path_factory.mktemp("site"), out).environment
    return {name: value for name, value in theirs.items() if not name.startswith("PREFECT")} | PLANTED


@pytest.fixture(scope="module")
def ui(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with started(environment, tmp_path_factory.mktemp("ui")) as running:
        yield running


@contextmanager
def started(environment: dict[str, str], folder: Path) -> Iterator[Running]:
    """Starts `arena ui` in a folder."""
    process = subprocess.Popen([*COMMAND, "0"], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said: dict[str, str] = {}
        while len(said) < 2 and (line := process.stdout.readline()):
            for start in ("Prefect: ", "The page asks for this once: "):
                if line.startswith(start):
                    said[start] = line.removeprefix(start).removesuffix("(Ctrl-C ends it)\n").strip()
        assert len(said) == 2, "it ended before it was up"
        yield Running(process, folder / "ui-demo", *said.values())
    finally:
        process.kill()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a profile of its own."""
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


def test_all_deployments_and_a_worker_of_each_pool_are_there(ui: Running):
    with ui.with_auth() as api:
        deployed = api.post("/deployments/filter", json={}).json()
        assert {entry["name"] for entry in deployed} == {job.deployment for job in CATALOGUE}
        for pool in ("cpu", "gpu"):
            workers = f"/work_pools/{pool}/workers/filter"
            wait_for(f"a worker serves {pool}", lambda path=workers: api.post(path, json={}).json(), 90)


def test_only_the_user_can_read_the_string_and_the_servers_files(ui: Running):
    private = ui.folder / "prefect"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in private.iterdir() if path.is_file()}
    assert {"auth-string", "prefect.db"} <= files.keys()
    assert all(mode == 0o600 for name, mode in files.items() if not name.endswith(".log")), files
    assert (private / "auth-string").read_text() == ui.auth


@pytest.mark.parametrize("auth", [None, ("arena", "guessed"), ("planted", "other")])
def test_a_request_without_the_string_is_refused(ui: Running, auth: tuple[str, str] | None):
    before = ui.contents()
    with ui.client(auth=auth) as api:
        answers = [
            api.post("/flows/", json={"name": "theirs"}),
            api.post("/deployments/filter", json={}),
            api.get("/admin/settings"),
        ]
    assert [answer.status_code for answer in answers] == [401] * 3
    # A browser that is asked for a password would send it with every later request, also with those of other pages.
    assert all("www-authenticate" not in answer.headers for answer in answers)
    assert ui.contents() == before


def test_nobody_without_the_string_sends_or_reads_events_and_logs(ui: Running):
    for path in ("events/in", "events/out", "logs/out"):
        address = f"{ui.url.replace('http', 'ws')}/api/{path}"
        with pytest.raises(websockets.exceptions.WebSocketException):
            websockets.sync.client.connect(address)
        with websockets.sync.client.connect(address, subprotocols=["prefect"]) as socket:  # type: ignore[list-item]
            socket.send(json.dumps({"type": "auth", "token": "arena:guessed"}))
            with pytest.raises(websockets.exceptions.ConnectionClosedError, match="Invalid token"):
                socket.recv(timeout=30)


@pytest.mark.ui
def test_a_page_of_another_origin_can_not_make_it_run_anything(ui: Running, page: Any, tmp_path: Path):
    (tmp_path / "index.html").write_text("<!doctype html><title>any page of the web</title>")
    before = ui.contents()
    with ui.with_auth() as api:
        deployment = api.get("/deployments/name/clean-up/clean-up").json()["id"]
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as theirs:
        threading.Thread(target=theirs.serve_forever).start()
        try:
            for host in ("127.0.0.1", ELSEWHERE):
                page.goto(f"http://{host}:{theirs.server_port}/")
                found = page.evaluate(ATTACK, [f"{ui.url}/api", ui.auth, deployment])
                # Requests with a JSON body or a header are refused before they are sent, others because they carry no
                # string, though the page knew it.
                assert found["answers"][:6] == ["TypeError: Failed to fetch"] * 6
                assert found["answers"][6:] == [0] * 3
                assert found["socket"] == "closed"
        finally:
            theirs.shutdown()
    assert ui.contents() == before


@pytest.mark.ui
def test_a_name_that_leads_to_this_machine_gets_the_page_and_nothing_else(ui: Running, page: Any):
    page.goto(f"http://{ELSEWHERE}:{ui.port}/ui-settings")
    answer = page.evaluate("() => fetch('/api/flows/', {method: 'POST', body: '{}'}).then(answer => answer.status)")
    assert answer == 401


@pytest.mark.ui
def test_its_own_page_asks_for_the_string_and_starts_a_run_without_the_secrets_of_the_shell(
    ui: Running, page: Any, out: Path
):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with ui.with_auth() as api:
        deployment = api.get("/deployments/name/clean-up/clean-up").json()["id"]
    page.goto(f"{ui.url}/v2/deployments/deployment/{deployment}/run", wait_until="domcontentloaded")
    page.get_by_placeholder("admin:pass").fill(ui.auth)
    page.screenshot(path=out / "ui-login.png")
    page.get_by_role("button", name="Login").click()
    page.get_by_label("Run Name").wait_for()
    page.goto(f"{ui.url}/v2/deployments", wait_until="domcontentloaded")
    page.get_by_role("link", name="arena-weekly").wait_for()
    page.screenshot(path=out / "deployments.png", full_page=True)
    shown = page.locator("body").inner_text()
    assert shown.index("arena-weekly") < shown.index("build-corpus")
    assert "Upgrade" not in shown and "Ready to scale" not in shown
    page.goto(f"{ui.url}/v2/deployments/deployment/{deployment}/run", wait_until="domcontentloaded")
    page.get_by_label("Run Name").fill("by hand")
    page.get_by_role("button", name="Submit").click()

    with ui.with_auth() as api:
        named = {"flow_runs": {"name": {"any_": ["by hand"]}}}
        run = wait_for("the run exists", lambda: api.post("/flow_runs/filter", json=named).json(), 60)[0]["id"]
        seen: list[dict[str, str]] = []

        def ended() -> dict[str, Any] | None:
            seen.extend(environments(ui.process.pid, "prefect.engine"))
            found = api.get(f"/flow_runs/{run}").json()
            return found if found["state_type"] in ENDED else None

        assert wait_for("the run ends", ended, 240)["state_type"] == "COMPLETED"
    page.screenshot(path=out / "ui-run.png")
    api_calls = {url.split("/api/")[0] for url in asked if "/api/" in url}
    assert api_calls == {ui.url}, "the page talks to the server that it came from"
    servers = environments(ui.process.pid, "server")
    assert seen and servers
    for held in seen:
        assert held["S2_API_KEY"] == CANARY and held["ARENA_ROOT"] == str(ui.folder / "store")
        assert "planted" not in " ".join(held.values())
    assert not {CANARY, *PLANTED.values()} & {value for held in servers for value in held.values()}


def environments(process: int, word: str) -> list[dict[str, str]]:
    """Returns the environment of each descendant whose command line holds a word."""
    found: list[dict[str, str]] = []
    for child in psutil.Process(process).children(recursive=True):
        try:
            if word in child.cmdline():
                found.append(child.environ())
        except psutil.Error:
            continue  # it has ended
    return found


def test_a_port_that_is_taken_is_refused_and_nothing_is_deployed_there(
    ui: Running, environment: dict[str, str], tmp_path: Path
):
    before = ui.contents()
    refused = subprocess.run([*COMMAND, ui.port], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2
    assert f"port {ui.port} of 127.0.0.1 cannot be used" in refused.stderr and "--port 0" in refused.stderr
    assert ui.contents() == before
    assert not list(tmp_path.iterdir())


@pytest.mark.ui
def test_the_link_to_a_report_opens(ui: Running, page: Any, out: Path):
    with ui.with_auth() as api:
        deployment = api.get("/deployments/name/build-corpus/build-corpus").json()["id"]
        asked = {"parameters": {"settings": {"corpus": "abstract"}}}
        run = api.post(f"/deployments/{deployment}/create_flow_run", json=asked).json()["id"]

        def ended() -> dict[str, Any] | None:
            found = api.get(f"/flow_runs/{run}").json()
            return found if found["state_type"] in ENDED else None

        assert wait_for("the run ends", ended, 240)["state_type"] == "COMPLETED"
        left = api.post("/artifacts/filter", json={"flow_runs": {"id": {"any_": [run]}}}).json()
    (link,) = (artifact["data"] for artifact in left if artifact["key"].startswith("report-"))
    address = re.search(r"\((http[^)]+)\)", link)
    assert address
    page.goto(address[1], wait_until="domcontentloaded")
    assert "Edition" in page.title() or "Edition" in page.locator("h1").first.inner_text()
    page.screenshot(path=out / "report.png")


def start_week(ui: Running) -> str:
    """Starts the weekly job, and returns its run once it is under way."""
    with ui.with_auth() as api:
        deployment = api.get("/deployments/name/weekly/arena-weekly").json()["id"]
        run = api.post(f"/deployments/{deployment}/create_flow_run", json={}).json()["id"]
        wait_for("the run is under way", lambda: api.get(f"/flow_runs/{run}").json()["state_type"] == "RUNNING", 120)
    return run


def state_in(folder: Path, run: str) -> str:
    """The state of a run in the database of a server that has stopped."""
    with sqlite3.connect(f"file:{folder / 'prefect' / 'prefect.db'}?mode=ro", uri=True) as connection:
        return connection.execute("select state_type from flow_run where id = ?", (run,)).fetchone()[0]


def test_a_run_that_a_kill_interrupts_is_crashed_when_it_starts_again_and_when_ctrl_c_does(
    environment: dict[str, str], tmp_path: Path
):
    with started(environment, tmp_path) as ui:
        killed = start_week(ui)
        end(ui, signal.SIGKILL)
    with started(environment, tmp_path) as ui:
        with ui.with_auth() as api:
            assert api.get(f"/flow_runs/{killed}").json()["state_type"] == "CRASHED"
        interrupted = start_week(ui)
        end(ui, signal.SIGINT)
    assert state_in(ui.folder, interrupted) == "CRASHED"


def end(ui: Running, how: signal.Signals) -> None:
    """Ends `arena ui`, and waits until nothing of it is left."""
    family = psutil.Process(ui.process.pid).children(recursive=True)
    ui.process.send_signal(how)
    ui.process.wait(90)
    assert not psutil.wait_procs(family, timeout=30)[1]


def test_ctrl_c_ends_all_of_it(ui: Running):
    family = psutil.Process(ui.process.pid).children(recursive=True)
    ui.process.send_signal(signal.SIGINT)
    assert ui.process.wait(90) == 0
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not (ui.folder / "prefect" / "auth-string").exists()
