"""Fetching from a server that makes no progress: it ends, by itself or by Ctrl-C, and tells no signed link."""

import gzip
import os
import random
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from schemas.errors import ReleaseError, TransientError
from schemas.fetching import ApiSettings, FetchReport, FetchSettings
from tasks.release import download, mirror
from tasks.release.client import DatasetsApi
from tasks.release.download import ENOUGH
from tasks.release.fetch import fetch_release
from tasks.release.targets import Links
from tests.release.s2_server import KEY, Fault, S2Server

NEW = "2026-01-13"
PART = f"{NEW}/papers/part-0.gz"
LONG = 3600.0
FILE = gzip.compress(random.Random(1).randbytes(9 * ENOUGH), 1)


@pytest.fixture
def server() -> Iterator[S2Server]:
    with S2Server() as server:
        server.content[NEW] = {"papers": {"part-0.gz": FILE}}
        yield server


def api(server: S2Server, folder: Path, **chosen: float) -> DatasetsApi:
    settings = {"interval_s": 0, "backoff_s": 0.001, "backoff_limit_s": 0.002, "attempts": 4} | chosen
    return DatasetsApi(SecretStr(KEY), ApiSettings.model_validate({"url": server.url, **settings}), folder / "state")


def fetch(server: S2Server, folder: Path, **chosen: float) -> FetchReport:
    with api(server, folder, **chosen) as client:
        return fetch_release(client, folder / "mirror", NEW, FetchSettings(spare_gib=0, datasets=("papers",)))


@pytest.mark.parametrize("most", [0, 1, ENOUGH - 1])
def test_a_server_that_sends_less_than_it_announces_is_given_up(server: S2Server, tmp_path: Path, most: int) -> None:
    server.most = most
    with pytest.raises(TransientError, match=rf"sent {most} bytes from byte .* of {len(FILE)} \(tries: 4\); run it"):
        fetch(server, tmp_path)
    assert server.requests[PART] == 4
    server.most = None
    assert fetch(server, tmp_path).received == len(FILE) - 4 * most, "what came before was kept"


def test_a_server_that_sends_enough_each_time_is_no_failure(server: S2Server, tmp_path: Path) -> None:
    server.most = ENOUGH
    assert fetch(server, tmp_path, attempts=1).received == len(FILE)
    assert server.requests[PART] == 10


def test_a_server_that_drips_is_given_up(server: S2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MAX_SILENCES", 0.05)
    server.drip_s = 0.02
    with pytest.raises(TransientError, match=r"sent \d+ bytes in 0 s \(tries: 2\)"):
        fetch(server, tmp_path, attempts=2, timeout_s=5)


def answer_little(server: S2Server) -> None:
    server.most = 0


def fall_silent(server: S2Server) -> None:
    server.piece_s = LONG


def drip(server: S2Server) -> None:
    server.drip_s = 0.01


def be_busy(server: S2Server) -> None:
    server.faults[PART] = [Fault(status=503, headers={"Retry-After": "3600"})]


def renew_nothing(server: S2Server) -> None:
    server.faults[PART] = [Fault(status=403)]
    server.on_listed = lambda times: server.api_faults.append(Fault(status=429, headers={"Retry-After": "3600"}))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in a worker of xdist, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("misbehave", [answer_little, fall_silent, drip, be_busy, renew_nothing])
def test_ctrl_c_ends_a_fetch_at_once(server: S2Server, tmp_path: Path, misbehave: Callable[[S2Server], None]) -> None:
    misbehave(server)

    def interrupt() -> None:
        while not server.requests[PART]:
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch(server, tmp_path, timeout_s=LONG, backoff_s=LONG, backoff_limit_s=LONG, retry_after_limit_s=LONG)
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_hashing_of_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{number}.gz" for number in range(100)]
    for path in paths:
        path.write_bytes(b"x")
    hashed: list[Path] = []

    def interrupted(path: Path) -> str:
        hashed.append(path)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return "0" * 64

    monkeypatch.setattr(mirror, "sha256_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mirror.hash_files(paths, tmp_path / "fingerprints.json")
    assert len(hashed) < 50, "files that wait are not hashed"


LINK = "https://host/x?X-Amz-Signature=s3cr3t"


@pytest.mark.parametrize(
    "said",
    [
        b'{"files": [1, "%s"]}' % LINK.encode(),
        b'{"files": ["ftp%s"]}' % LINK.encode(),
        b'["%s"]' % LINK.encode(),
        b'{"files": "%s"}' % LINK.encode(),
        b'{"files": ["%s"], ' % LINK.encode(),
        b'{"files": ["%s", "http://[%s"]}' % (LINK.encode(), LINK.encode()),
    ],
)
def test_a_malformed_answer_tells_no_signed_link(server: S2Server, tmp_path: Path, said: bytes) -> None:
    server.on_listed = lambda times: None
    with api(server, tmp_path) as client, pytest.raises(ReleaseError) as raised:
        server.said = said
        Links(lambda: client.files(NEW, "papers"))
    told = "".join(traceback.format_exception(raised.value))
    assert "s3cr3t" not in told
    assert len(str(raised.value)) < 500


@pytest.mark.long
def test_an_answer_of_the_wrong_form_is_read_as_far_as_needed(server: S2Server, tmp_path: Path) -> None:
    with api(server, tmp_path) as client:
        server.said = b'{"files": [' + b"{}," * 2_000_000 + b"{}]}"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ReleaseError, match=r"files\.0: Input should be a valid string"):
            client.files(NEW, "papers")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 1024
