"""Fetching releases from a server of our own that fails in every way that the real one does."""

import gzip
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from schemas.errors import ReleaseError, TransientError, UsageError
from schemas.fetching import ApiSettings, FetchReport, FetchSettings
from tasks.release.client import DatasetsApi, newest_release
from tasks.release.fetch import fetch_diffs, fetch_release
from tasks.release.filenames import name_files
from tasks.release.mirror import list_releases, open_release
from tests.release.s2_server import KEY, Fault, S2Server

OLD, NEW = "2026-01-06", "2026-01-13"
QUICK = {"interval_s": 0, "backoff_s": 0.001, "backoff_limit_s": 0.01, "retry_after_limit_s": 0.05, "timeout_s": 10}
PART = f"{NEW}/papers/part-0.gz"


@cache
def lines(seed: int, size: int) -> bytes:
    """JSON lines that compress to about `size` bytes."""
    draw = random.Random(seed)
    text = "".join(f'{{"corpusid": {n}, "title": "{draw.randbytes(500).hex()}"}}\n' for n in range(size // 580 + 1))
    return gzip.compress(text.encode(), 1, mtime=0)


@pytest.fixture
def server() -> Iterator[S2Server]:
    with S2Server() as server:
        server.content[OLD] = {"papers": {}}
        server.content[NEW] = {
            "papers": {f"part-{n}.gz": lines(n, 150_000) for n in range(3)},
            "abstracts": {"part-0.gz": lines(7, 50_000)},
            "citations": {"part-0.gz": lines(8, 50_000)},
            "s2orc_v2": {"part-0.gz": lines(9, 50_000)},
            "tldrs": {"part-0.gz": lines(10, 50_000)},
        }
        yield server


def api(server: S2Server, folder: Path, **chosen: float) -> DatasetsApi:
    return DatasetsApi(SecretStr(KEY), ApiSettings(url=server.url, **QUICK | chosen), folder / "state")


def fetch(server: S2Server, folder: Path, **settings: object) -> FetchReport:
    chosen = FetchSettings.model_validate({"spare_gib": 0, **settings})
    with api(server, folder) as client:
        return fetch_release(client, folder / "mirror", NEW, chosen)


def assert_same(server: S2Server, mirror: Path, release: str = NEW, datasets: tuple[str, ...] = ()) -> None:
    """Every file is there byte by byte, and nothing else."""
    wanted = datasets or ("papers", "abstracts", "citations", "s2orc_v2")
    for dataset in wanted:
        found = {path.name: path.read_bytes() for path in (mirror / release / dataset).iterdir()}
        assert found == server.content[release][dataset], dataset
    assert {path.name for path in (mirror / release).iterdir()} == {*wanted, "manifest.json"}


def test_a_release_arrives_whole_and_is_then_left_alone(server: S2Server, tmp_path: Path) -> None:
    report = fetch(server, tmp_path)
    assert_same(server, tmp_path / "mirror")
    assert (report.files, report.bytes, report.received) == (6, server.served.total() - 6, server.served.total() - 6)
    assert server.leaked == [], "the key goes to the API only"
    opened = open_release(tmp_path / "mirror", NEW, tmp_path / "fingerprints.json")
    manifest = json.loads((tmp_path / "mirror" / NEW / "manifest.json").read_text())
    for name, dataset in opened.items():
        assert manifest["datasets"][name]["files"] == [file.model_dump() for file in dataset.files]
    before = server.requests.total()
    assert fetch(server, tmp_path).received == 0
    assert server.requests.total() == before
    assert fetch(server, tmp_path, datasets=("papers", "s2orc_v2")).files == 6


def test_a_dataset_can_be_added_later(server: S2Server, tmp_path: Path) -> None:
    fetch(server, tmp_path, datasets=("papers", "abstracts"))
    report = fetch(server, tmp_path)
    assert (report.files, len(server.served)) == (6, 6)
    assert_same(server, tmp_path / "mirror")
    assert not (tmp_path / "mirror/.fetching" / NEW).exists()


@pytest.mark.parametrize(
    ("fault", "counted"),
    [
        (Fault(status=403), {"renewed": 1}),
        (Fault(status=429), {}),
        (Fault(status=429, headers={"Retry-After": "0"}), {}),
        (Fault(status=429, headers={"Retry-After": "99999"}), {}),
        (Fault(status=500), {}),
        (Fault(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), {}),
        (Fault(reset_after=0), {}),
        (Fault(reset_after=100_001), {}),
        (Fault(reset_after=100_001, expire=True), {"renewed": 4}),
        (Fault(length_error=1_000), {}),
        (Fault(length_error=-1_000), {}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_a_fault_costs_no_byte(server: S2Server, tmp_path: Path, fault: Fault, counted: dict[str, int]) -> None:
    server.faults[PART] = [fault]
    report = fetch(server, tmp_path, parallel=1)
    assert_same(server, tmp_path / "mirror")
    assert report.received == report.bytes, "no byte came twice"
    assert (report.restarts, report.refetched) == (0, 0)
    assert {name: getattr(report, name) for name in counted} == counted
    assert server.requests[PART] == 2 + bool(fault.expire) - (fault.length_error > 0), "no request too many"


def test_links_that_expire_again_and_again_are_renewed_once_each(server: S2Server, tmp_path: Path) -> None:
    server.faults[PART] = [Fault(reset_after=50_000, expire=True), Fault(), Fault(reset_after=50_000, expire=True)]
    report = fetch(server, tmp_path, parallel=3)
    assert_same(server, tmp_path / "mirror")
    assert report.received == report.bytes
    assert 2 <= report.renewed <= 8


def test_a_server_without_ranges_makes_the_file_begin_anew(server: S2Server, tmp_path: Path) -> None:
    server.faults[PART] = [Fault(reset_after=100_000), Fault(ignore_range=True)]
    report = fetch(server, tmp_path)
    assert_same(server, tmp_path / "mirror")
    assert (report.restarts, report.received - report.bytes) == (1, 100_000)


def test_restarts_end(server: S2Server, tmp_path: Path) -> None:
    server.ranges = False
    server.faults[PART] = [Fault(reset_after=100_000)] * 9
    with pytest.raises(ReleaseError, match=r"part-0.gz: restarted 3 times \(the server cannot resume in the middle"):
        fetch(server, tmp_path)
    assert list_releases(tmp_path / "mirror") == []


def test_a_truncated_file_is_fetched_once_more(server: S2Server, tmp_path: Path) -> None:
    whole = server.content[NEW]["papers"]["part-0.gz"]
    server.content[NEW]["papers"]["part-0.gz"] = whole[:-30]
    with pytest.raises(ReleaseError, match=r"part-0\.gz.*truncated or damaged.*twice"):
        fetch(server, tmp_path)
    assert server.requests[PART] == 2
    assert list_releases(tmp_path / "mirror") == []
    server.content[NEW]["papers"]["part-0.gz"] = whole
    fetch(server, tmp_path)
    assert_same(server, tmp_path / "mirror")


def test_damage_on_the_way_is_found_and_mended(server: S2Server, tmp_path: Path) -> None:
    good = server.content[NEW]["papers"]["part-0.gz"]
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 0xFF
    server.content[NEW]["papers"]["part-0.gz"] = bytes(bad)

    def mend(total: int) -> None:
        if server.served[PART] >= len(good):
            server.content[NEW]["papers"]["part-0.gz"] = good

    server.on_bytes = mend
    assert fetch(server, tmp_path).refetched == 1
    assert_same(server, tmp_path / "mirror")


def test_what_is_no_gzip_is_refused(server: S2Server, tmp_path: Path) -> None:
    server.content[NEW]["papers"]["part-0.gz"] = b"<html>Please sign in</html>"
    with pytest.raises(ReleaseError, match=r"part-0\.gz.*damaged"):
        fetch(server, tmp_path)


def test_a_file_that_changes_in_the_middle_begins_anew(server: S2Server, tmp_path: Path) -> None:
    def change(total: int) -> None:
        if server.requests[PART] == 1 and server.served[PART] > 100_000:
            server.content[NEW]["papers"]["part-0.gz"] = lines(99, 200_000)

    server.on_bytes = change
    server.faults[PART] = [Fault(reset_after=100_000)]
    assert fetch(server, tmp_path).restarts == 1
    assert_same(server, tmp_path / "mirror")


def test_a_list_that_changes_is_followed(server: S2Server, tmp_path: Path) -> None:
    papers = server.content[NEW]["papers"]

    def change(times: int) -> None:
        if times == 2:
            papers["part-9.gz"] = lines(99, 10_000)
            papers.pop("part-1.gz", None)

    server.on_listed = change
    server.faults[PART] = [Fault(reset_after=1_000, expire=True)]
    fetch(server, tmp_path)
    assert set(papers) == {"part-0.gz", "part-2.gz", "part-9.gz"}
    assert_same(server, tmp_path / "mirror")


def test_names_are_never_paths(server: S2Server, tmp_path: Path) -> None:
    names = [
        "../../x",
        "/etc/passwd",
        "a\0b",
        "x" * 5_000,
        "%2e%2e%2fx",
        "a/same.gz",
        "b/same.gz",
        ".hidden",
        "ü",
    ]
    server.content[NEW]["papers"] = {name: lines(n, 600) for n, name in enumerate(names)}
    fetch(server, tmp_path)
    found = list((tmp_path / "mirror" / NEW / "papers").iterdir())
    assert sorted(path.read_bytes() for path in found) == sorted(server.content[NEW]["papers"].values())
    assert {path.name for path in tmp_path.iterdir()} == {"mirror", "state"}
    assert {path.name for path in (tmp_path / "mirror").iterdir()} == {NEW, ".fetching"}
    assert len(open_release(tmp_path / "mirror", NEW, tmp_path / "f.json")["papers"].files) == len(names)


@given(st.lists(st.text(max_size=300), max_size=8, unique=True))
@settings(max_examples=50)
def test_any_link_has_a_safe_name_of_its_own(paths: list[str]) -> None:
    names = name_files(paths)
    assert set(names) == set(paths)
    assert len({name.lower() for name in names.values()}) == len(paths)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,140}", name) for name in names.values())


def test_a_crash_at_any_rename_costs_no_byte(server: S2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renames, calls = Path.replace, 0
    server.content[NEW] = {"papers": {"a.gz": lines(1, 9_000)}}
    size = len(lines(1, 9_000))
    for crash in range(1, 99):
        calls = 0

        def replace(self: Path, target: Path, crash: int = crash) -> Path:
            nonlocal calls
            calls += 1
            if calls == crash:
                raise KeyboardInterrupt
            return renames(self, target)

        server.served.clear()
        folder = tmp_path / str(crash)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            try:
                fetch(server, folder, datasets=("papers",), parallel=1)
            except KeyboardInterrupt:
                assert list_releases(folder / "mirror") == []
                fetch(server, folder, datasets=("papers",), parallel=1)
        assert_same(server, folder / "mirror", datasets=("papers",))
        assert size + 1 <= server.served.total() <= size + 2, "a probe of one byte may be repeated"
        if calls < crash:
            break
    assert crash == 6, "two notes on the file and its name, the manifest, the release; then there was no crash"


def test_progress_is_told_and_the_bandwidth_kept(server: S2Server, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    chosen = FetchSettings(spare_gib=0, datasets=("abstracts", "citations"), bandwidth_mb_s=1)
    began = time.monotonic()
    with api(server, tmp_path) as client:
        report = fetch_release(client, tmp_path / "mirror", NEW, chosen, lambda t: told.append((t.present, t.total)))
    assert time.monotonic() - began > report.bytes / 1e6 * 0.9
    assert told == sorted(told)
    assert told[-1] == (report.bytes, report.bytes)


def test_too_little_space_is_said_before_anything_comes(server: S2Server, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"needs 1,000,000\.00 GiB in .*/.fetching, where .* GiB are free"):
        fetch(server, tmp_path, spare_gib=1e6)
    assert server.requests.total() == 0


def test_only_wanted_records_stay_and_a_filter_loses_no_byte(server: S2Server, tmp_path: Path) -> None:
    citations = b"".join(b'{"citingcorpusid": %d, "citedcorpusid": 1}\n' % n for n in range(50)) + b"no json\n"
    texts = b"".join(b'{"corpusid": %d, "body": {"text": %s}}\n' % (n, b'"t"' if n % 3 else b"null") for n in range(50))
    server.content[NEW]["citations"] = {"c.gz": gzip.compress(citations)}
    server.content[NEW]["s2orc_v2"] = {"t.gz": gzip.compress(texts)}
    server.faults[f"{NEW}/citations/c.gz"] = [Fault(reset_after=60)]
    (tmp_path / "ids").write_text("7\n3\n9\n3\n")
    choice = {"keep_ids": tmp_path / "ids", "full_text_only": True}
    report = fetch(server, tmp_path, **choice)
    folder = tmp_path / "mirror" / NEW
    kept = gzip.decompress((folder / "citations/c.gz").read_bytes()).splitlines()
    assert kept == [b'{"citingcorpusid": %d, "citedcorpusid": 1}' % n for n in (3, 7, 9)] + [b"no json"]
    kept = gzip.decompress((folder / "s2orc_v2/t.gz").read_bytes()).splitlines()
    assert kept == [b'{"corpusid": 7, "body": {"text": "t"}}']
    assert (folder / "papers/part-0.gz").read_bytes() == server.content[NEW]["papers"]["part-0.gz"]
    assert server.served.total() - 6 == report.received
    assert fetch(server, tmp_path, **choice).received == 0
    with pytest.raises(UsageError, match="citations of 2026-01-13 is there with 3 ids"):
        fetch(server, tmp_path)


def test_two_processes_do_not_fetch_one_release(server: S2Server, tmp_path: Path) -> None:
    refused: list[str] = []

    def again(times: int) -> None:  # while the first one waits for the answer
        server.on_listed = lambda times: None
        try:
            fetch(server, tmp_path)
        except ReleaseError as error:
            refused.append(str(error))

    server.on_listed = again
    fetch(server, tmp_path)
    assert "another process is fetching it" in refused[0]
    assert_same(server, tmp_path / "mirror")


def test_diffs_come_in_their_order(server: S2Server, tmp_path: Path) -> None:
    server.content[OLD] = server.content[NEW]
    server.diffs = {
        (OLD, "2026-01-09"): {"papers": ({"u.gz": lines(1, 9_000)}, {"d.gz": lines(2, 600), "e.gz": lines(3, 600)})},
        ("2026-01-09", NEW): {"papers": ({"u.gz": lines(4, 9_000)}, {})},
    }
    chosen = FetchSettings(datasets=("papers",), spare_gib=0)
    with api(server, tmp_path) as client:
        for received in (True, False):
            reports = fetch_diffs(client, tmp_path / "mirror", (OLD, NEW), chosen)
            assert [report.name for report in reports] == [f"{OLD}_2026-01-09", f"2026-01-09_{NEW}"]
            assert all(bool(report.received) == received for report in reports)
    for (start, end), changed in server.diffs.items():
        for kind, files in zip(("updates", "deletes"), changed["papers"], strict=True):
            folder = tmp_path / "mirror/diffs" / f"{start}_{end}" / "papers" / kind
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert list_releases(tmp_path / "mirror") == []


FETCH = """
import sys
from pathlib import Path
from pydantic import SecretStr
from schemas.fetching import ApiSettings, FetchSettings
from tasks.release.client import DatasetsApi
from tasks.release.filenames import name_files
from tasks.release.fetch import fetch_release
url, key, release, folder = sys.argv[1:]
with DatasetsApi(SecretStr(key), ApiSettings(url=url, interval_s=0), Path(folder) / "state") as api:
    fetch_release(api, Path(folder) / "mirror", release, FetchSettings(spare_gib=0, parallel=2))
"""


@pytest.mark.long
def test_killed_at_any_moment_it_goes_on_at_the_next_byte(server: S2Server, tmp_path: Path) -> None:
    server.content[NEW]["papers"] = {f"part-{n}.gz": lines(n, 3_000_000) for n in range(3)}
    sizes = sum(len(data) for name, files in server.content[NEW].items() if name != "tldrs" for data in files.values())
    draw = random.Random(5)
    moments = sorted(draw.sample(range(sizes), 3))
    processes: list[subprocess.Popen[bytes]] = []

    one_at_a_time = threading.Lock()

    def kill(total: int) -> None:
        with one_at_a_time:
            if moments and total >= moments[0]:
                moments.pop(0)
                time.sleep(draw.uniform(0, 0.01))
                processes[-1].kill()

    server.on_bytes, server.piece_s = kill, 0.001
    codes: list[int] = []
    while not codes or codes[-1]:
        assert len(codes) < 4, codes
        command = [sys.executable, "-c", FETCH, server.url, KEY, NEW, str(tmp_path)]
        processes.append(subprocess.Popen(command, cwd=Path(__file__).parents[2], env=os.environ))
        codes.append(processes[-1].wait(60))
        assert list_releases(tmp_path / "mirror") == ([NEW] if codes[-1] == 0 else [])
    assert codes == [-signal.SIGKILL] * 3 + [0]
    assert_same(server, tmp_path / "mirror")
    assert sizes <= server.served.total() < 1.2 * sizes, "only what was on the way when a process died comes again"


def test_the_newest_release_is_asked_for_in_one_call(server: S2Server, tmp_path: Path) -> None:
    with api(server, tmp_path) as client:
        assert newest_release(client, [OLD]) == NEW
        assert newest_release(client, [OLD, NEW]) is None
        assert newest_release(client, []) == NEW
        assert newest_release(client, ["2026-02-01"]) is None
    assert len(server.calls) == 4


def test_a_busy_api_is_asked_again(server: S2Server, tmp_path: Path) -> None:
    server.api_faults = [Fault(status=429), Fault(status=429, headers={"Retry-After": "0"}), Fault(status=502)]
    with api(server, tmp_path) as client:
        assert client.releases() == [OLD, NEW]
    server.api_faults = [Fault(status=500)] * 3
    with api(server, tmp_path, attempts=3) as client, pytest.raises(TransientError, match=r"HTTP 500: {} \(tries: 3\)"):
        client.releases()
    assert len(server.calls) == 7


def test_retry_after_holds_every_process_and_is_capped(server: S2Server, tmp_path: Path) -> None:
    server.api_faults = [Fault(status=429, headers={"Retry-After": "86400"})]
    began = time.monotonic()
    with api(server, tmp_path, retry_after_limit_s=0.1) as client:
        assert client.releases() == [OLD, NEW]
    assert 0.09 < time.monotonic() - began < 5


def test_failures_of_the_api_are_told_in_a_line(server: S2Server, tmp_path: Path) -> None:
    def ask(key: str | None, url: str = server.url) -> tuple[str, ...]:
        settings = ApiSettings(url=url, **QUICK, attempts=2)
        with DatasetsApi(SecretStr(key) if key else None, settings, tmp_path) as client:
            return client.files("2020-01-07", "papers")

    with pytest.raises(UsageError, match="set S2_API_KEY"):
        ask(None)
    with pytest.raises(ReleaseError, match="refused the key") as refused:
        ask("wrong-key")
    assert "wrong-key" not in str(refused.value)
    with pytest.raises(ReleaseError, match=r"no such release or dataset; .*--remote"):
        ask(KEY)
    with pytest.raises(TransientError, match="cannot be reached"):
        ask(KEY, "http://127.0.0.1:1/datasets/v1")
    with pytest.raises(UsageError, match="is not a date"), api(server, tmp_path) as client:
        client.files("../..", "papers")


def test_hashes_of_the_manifest_are_those_of_the_bytes(server: S2Server, tmp_path: Path) -> None:
    fetch(server, tmp_path, datasets=("abstracts",))
    (file,) = json.loads((tmp_path / "mirror" / NEW / "manifest.json").read_text())["datasets"]["abstracts"]["files"]
    assert file["sha256"] == hashlib.sha256(server.content[NEW]["abstracts"]["part-0.gz"]).hexdigest()
