"""People are told of runs that failed, crashed or are late, with a link and what to do."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.e2e.conftest import CORPUS, RELEASE, Site, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

BLOCK = """
import sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock
CustomWebhookNotificationBlock(
    name="e2e", url=sys.argv[1], json_data={"subject": "{{subject}}", "body": "{{body}}"}
).save("e2e", overwrite=True)
"""


class Inbox(HTTPServer):
    """Takes notifications."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.messages: list[dict[str, str]] = []

    def about(self, words: str) -> dict[str, str] | None:
        return next((message for message in self.messages if words in message["subject"]), None)


class Hook(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        self.server.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        pass


@pytest.fixture
def inbox(site: Site, tmp_path: Path) -> Iterator[Inbox]:
    """A webhook that the installation names; build-index and the reruns on a GPU belong to a pool without a worker."""
    with Inbox() as inbox:
        threading.Thread(target=inbox.serve_forever).start()
        address = f"http://127.0.0.1:{inbox.server_port}/"
        subprocess.run([sys.executable, "-c", BLOCK, address], env=site.environment, cwd=site.folder, check=True)
        installation = tmp_path / "installation.yaml"
        installation.write_text("notify: custom-webhook/e2e\ngpu_pool: gpu\n")
        site.arena("deploy", "--installation", str(installation))
        try:
            yield inbox
        finally:
            site.arena("deploy", "--gpu-pool", "cpu")
            inbox.shutdown()


def test_failed_crashed_and_late_runs_are_told_with_a_link_and_the_remedy(site: Site, inbox: Inbox, tmp_path: Path):
    late = site.start("rerun-stage-gpu", {"edition": RELEASE, "stage": "papers"})
    wrong = {"machine": {"root": str(tmp_path / "none"), "releases": str(tmp_path / "no-mirror"), "workers": 1}}
    failed = site.start("build-corpus", wrong)
    assert site.ended(failed)["state_type"] == "FAILED"
    told = wait_for("the failure is told", lambda: inbox.about("failed"), 60)
    assert "no release in" in told["body"]
    assert f"{site.url}/runs/flow-run/{failed}" in told["body"]
    assert "What to do: mend the cause" in told["body"] and "no-mirror" in told["body"]

    machine = {"root": str(tmp_path / "store"), "workers": 1}
    crashed = site.start("build-corpus", {"release": RELEASE, "settings": CORPUS, "machine": machine})
    wait_for("the corpus is begun", lambda: list(tmp_path.glob("store/paper_records/*/manifest.json")), 120, every=0.05)
    assert site.run(crashed)["name"] == f"build-corpus {RELEASE}"
    assert {"arena", "build"} <= set(site.run(crashed)["tags"])
    site.flow_process().kill()
    assert site.ended(crashed, 60)["state_type"] == "CRASHED"
    told = wait_for("the crash is told", lambda: inbox.about("crashed"), 60)
    assert RELEASE in told["subject"] and crashed in told["body"] and "press Retry" in told["body"]

    told = wait_for("the late run is told", lambda: inbox.about("is late"), 90)
    assert late in told["body"] and "look under Work Pools" in told["body"]
    site.post(f"/flow_runs/{late}/set_state", {"state": {"type": "CANCELLED"}, "force": True})
