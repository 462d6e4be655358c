"""`arena release`: from the server to an accepted release, exit codes, errors as one line."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import cli
from schemas.identifiers import DatasetName
from tasks.demo.release import SyntheticSettings, write_release
from tests.release.s2_server import KEY, S2Server

OLD, NEW = "2026-01-06", "2026-01-13"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, bytes]]]:
    folder = tmp_path_factory.mktemp("upstream")
    for week, papers in ((OLD, 200), (NEW, 204)):
        write_release(folder, SyntheticSettings(release=week, papers=papers, files=2))
    datasets: tuple[DatasetName, ...] = ("papers", "abstracts", "citations", "s2orc_v2")
    return {
        week: {name: {path.name: path.read_bytes() for path in (folder / week / name).iterdir()} for name in datasets}
        for week in (OLD, NEW)
    }


class Arena:
    """Calls `arena release` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], server: S2Server) -> None:
        self._capsys, self._url = capsys, server.url

    def __call__(self, command: str, *tokens: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        remote = command in ("fetch", "diff") or "--remote" in tokens
        there = ("--url", self._url, "--interval-s", 0, "--backoff-s", 0, "--attempts", 2) if remote else ()
        call = [str(token) for token in ("release", command, *tokens, *there)]
        code = cli.app.meta(call, exit_on_error=False, print_error=False) or 0
        return code, *self._capsys.readouterr()


@pytest.fixture
def server(content: dict[str, dict[str, dict[str, bytes]]]) -> Iterator[S2Server]:
    with S2Server() as server:
        server.content = {week: {name: dict(files) for name, files in sets.items()} for week, sets in content.items()}
        yield server


@pytest.fixture
def arena(
    server: S2Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Arena:
    monkeypatch.setenv("ARENA_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("ARENA_RELEASES", str(tmp_path / "mirror"))
    monkeypatch.setenv("ARENA_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("S2_API_KEY", KEY)
    return Arena(capsys, server)


def test_a_release_is_listed_fetched_checked_and_used(arena: Arena, server: S2Server, tmp_path: Path) -> None:
    code, out, _ = arena("list", "--remote", "--json")
    assert (code, json.loads(out)) == (0, [{"release": OLD, "here": "no"}, {"release": NEW, "here": "no"}])
    code, out, err = arena("fetch", OLD, "--spare-gib", 0, "--json")
    assert code == 0, err
    assert json.loads(out)[0]["received"] == json.loads(out)[0]["bytes"] > 0
    code, out, err = arena("check")
    assert (code, "compared with nothing: the first release: as expected" in out) == (0, True), err
    assert arena("fetch", "--spare-gib", 0)[0] == 0
    code, out, _ = arena("check", "--json")
    verdict = json.loads(out)
    assert (code, verdict["release"], verdict["accepted"], verdict["compared_with"]) == (0, NEW, True, [OLD])
    code, out, _ = arena("list", "--remote", "--json")
    assert [row["here"] for row in json.loads(out)] == ["accepted", "accepted"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mirror", "root", "state"]


def test_a_refused_release_exits_1_until_a_person_accepts_it(arena: Arena, server: S2Server) -> None:
    arena("fetch", OLD, "--spare-gib", 0)
    arena("check", OLD)
    server.content[NEW]["citations"] = {"one.gz": gzip.compress(b'{"citingcorpusid": 1, "citedcorpusid": 2}\n')}
    arena("fetch", NEW, "--spare-gib", 0)
    code, out, err = arena("check", NEW)
    assert code == 1
    assert "rows" not in err
    assert f"arena: release {NEW} is refused" in err
    assert f"the last accepted release is {OLD}" in err
    assert err.count("\n") == 1
    assert "refused" in out
    code, out, _ = arena("check", NEW, "--accept", "citations moved", "--json")
    assert (code, json.loads(out)["reason"]) == (0, "citations moved")


def test_diffs_are_fetched(arena: Arena, server: S2Server, tmp_path: Path) -> None:
    update = gzip.compress(b'{"corpusid": 1}\n')
    server.diffs = {(OLD, NEW): {"papers": ({"u.gz": update}, {"d.gz": update})}}
    code, _, err = arena("diff", OLD, "--datasets", "papers", "--spare-gib", 0)
    assert code == 0, err
    for kind, name in (("updates", "u.gz"), ("deletes", "d.gz")):
        assert (tmp_path / "mirror/diffs" / f"{OLD}_{NEW}" / "papers" / kind / name).read_bytes() == update


@pytest.mark.parametrize(
    ("key", "call", "code", "says"),
    [
        (None, ("fetch", OLD), 2, "set S2_API_KEY"),
        ("wrong", ("fetch", OLD), 1, "the API refused the key (403); check S2_API_KEY"),
        (KEY, ("fetch", "2020-01-07"), 1, "there is no such release or dataset"),
        (KEY, ("fetch", "../etc"), 2, "is not a date such as"),
        (KEY, ("fetch", OLD, "--parallel", 0), 2, "--parallel '0'"),
        (KEY, ("diff", OLD, NEW, "--datasets", "papers"), 1, "there is no such release or dataset"),
        (KEY, ("check", "2020-01-07"), 1, "release '2020-01-07' is not in"),
        (KEY, ("check",), 1, "no release in"),
    ],
)
def test_failures_are_one_line(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, key: str | None, call: tuple[str, ...], code: int, says: str
) -> None:
    if key is None:
        monkeypatch.delenv("S2_API_KEY")
    else:
        monkeypatch.setenv("S2_API_KEY", key)
    got, out, err = arena(*call)
    assert (got, out) == (code, "")
    assert says in err
    assert err.startswith("arena: ")
    assert err.count("\n") == 1
    assert "wrong" not in err


def test_an_unreachable_server_is_one_line(arena: Arena, server: S2Server) -> None:
    server.__exit__()
    code, out, err = arena("fetch", OLD)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "cannot be reached" in err
