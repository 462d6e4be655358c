"""The search benchmark as a whole: command, flow, page, a second run, and wrong arguments."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest
from pydantic import ValidationError

from flows import cli
from flows.jobs.search import paper_search
from flows.pipeline.machine import Machine
from schemas.search import EngineSettings, SearchSettings
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, as_json, completion
from tests.search.searching import shown, told

SCRIPT = "<script>alert(1)</script>"
QUICK = ("--resamples", "100", "--workers", "1", "--depth", "5")


def judged(seen: Seen, _: int) -> Answer:
    """Judges short titles best, with a reason that contains markup."""
    return completion(told(5 - min(5, len(shown(seen, "title")) // 20), 8, f"It is short {SCRIPT}."))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedServer]:
    server = ScriptedServer(judged)
    more = tmp_path / "llm.json"
    more.write_text(json.dumps({"prices": {"m": {"input": 1, "output": 1}}, "concurrency": 2}))
    variables = {"BASE_URL": server.url, "MODEL": "m", "PROVIDER": "stand-in", "API_KEY": "k", "SETTINGS": str(more)}
    for name, value in variables.items():
        monkeypatch.setenv(f"ARENA_LLM_{name}", value)
    yield server
    server.close()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Three queries, and recorded results for two of them."""
    queries, results = tmp_path / "some_search_queries.json", tmp_path / "mine.csv"
    words = ("learning of graphs", f"networks {SCRIPT}", "analysis of systems for data")
    content = {
        f"q{i}": {"search_query": text, "settings": {"length": f"Short {SCRIPT}" if i else "Sentence"}}
        for i, text in enumerate(words)
    }
    queries.write_text(json.dumps(content))
    rows = [("q0", 1, f"Graphs {SCRIPT}"), ("q0", 2, "A much longer title about many other things"), ("q1", 1, "Nets")]
    pl.DataFrame(rows, schema=["query_key", "rank", "title"], orient="row").write_csv(results)
    return queries, results


def arena(*tokens: object) -> int:
    return cli.app.meta([str(token) for token in tokens], exit_on_error=False, print_error=False) or 0


def test_from_queries_to_a_page(
    built: Path, tmp_path: Path, files: tuple[Path, Path], server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, results = files
    shutil.copytree(built / "store", tmp_path / "store")
    asked = ("judge", queries, "--root", tmp_path / "store", *QUICK, "--json", "--engines", "bm25", f"file:{results}")
    assert arena(*asked, "--dry-run") == 0
    (estimate,) = json.loads(capsys.readouterr().out)
    assert server.seen == [], "an estimate asks nothing"
    assert arena(*asked, "--to", tmp_path / "page") == 0
    found = json.loads(capsys.readouterr().out)
    assert estimate["judgments"] == len(server.seen) == found["cost"][0]["asked"] > 3
    tag = "paper_lantern+m@5"
    scores = {row["engine"]: row for row in found["scores"][tag]}
    assert scores["file.mine@5"]["mean_5"] == pytest.approx((20 * (4 + 3) / 5 + 20 + 0) / 3)
    assert (scores["file.mine@5"]["answered"], scores["bm25.abstract@5"]["answered"]) == (2, 3)
    page = (tmp_path / "page" / "report.html").read_text()
    assert SCRIPT not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "the judge is the stand-in" in page
    figure = (tmp_path / "page" / "figures" / f"search-map-{tag}.svg").read_text()
    assert "<script>" not in figure
    assert "Short &lt;script&gt;" in figure
    assert (tmp_path / "page" / "trec" / tag / "runs" / "bm25.abstract@5.txt").read_text().startswith("some/q0 Q0 ")

    sheet = ("audit", "judgments", "--root", tmp_path / "store", "--n", "3", "--to", tmp_path / "sheet.csv", "--json")
    assert arena(*sheet, "--judge", "nobody") == 2
    assert f"/judgments/{tag}" in capsys.readouterr().err
    assert arena(*sheet) == 0
    assert json.loads(capsys.readouterr().out)["papers"] == 3
    papers = pl.read_csv(tmp_path / "sheet.csv")
    assert (papers.height, papers["label"].null_count(), "score" in papers.columns) == (3, 3, False)

    calls = len(server.seen)
    assert arena(*asked) == 0
    assert len(server.seen) == calls, "a second run judges nothing"
    assert json.loads(capsys.readouterr().out)["datasets"] == found["datasets"]
    other = queries.with_name("other.json")
    other.write_text(json.dumps({"q9": {"search_query": "data"}}))
    assert arena(*(other if token == queries else token for token in asked)) == 1, "its keys are not in the file"
    assert arena("judge", other, "--root", tmp_path / "store", *QUICK, "--engines", "bm25") == 0
    slots = Editions(Store(tmp_path / "store")).load("2026-01-06").slots
    assert "search/other/report" in slots
    assert {slot for slot in slots if slot.startswith("search/")} >= {
        "search/some/report",
        f"search/some/judgments/{tag}",
    }


@pytest.mark.usefixtures("prefect_server", "server")
def test_the_flow_needs_no_edition_for_recorded_results(tmp_path: Path, files: tuple[Path, Path]) -> None:
    queries, results = files
    settings = SearchSettings(engines=(f"mine=file:{results}",), judges=("paper_lantern", "score_only"), resamples=100)
    machine = Machine(root=tmp_path / "new", workers=1)
    built = paper_search([queries], "searches", settings, machine=machine)
    assert Editions(Store(machine.root)).load("searches").slots == built
    assert {"search/some/results/mine", "search/some/judgments/score_only+m", "search/some/agreement"} <= built.keys()


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    """A copy of the built store."""
    return shutil.copytree(built / "store", tmp_path / "copied")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engines", "google"), "no search engine is named 'google'; there are: arxiv, bm25"),
        (("--engines", "file"), "write file:PATH"),
        (("--engines", "bm25:x"), "write file:PATH"),
        (("--engines", "bm25", "bm25"), "write NAME=bm25"),
        (("--judges", "me", "--engines", "bm25"), "no judge is named 'me'"),
        (("--engines", "dense"), "arena index --field abstract"),
        (("--depth", "0"), "--depth"),
    ],
)
@pytest.mark.usefixtures("server")
def test_a_wrong_argument_is_an_error_of_one_line(
    copied: Path, files: tuple[Path, Path], options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert arena("judge", files[0], "--root", copied, *options) == 2
    told_last = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in told_last
    assert told_last.startswith("arena: ")


def test_marginals_are_listed(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert arena("judge", files[0], "--list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["value"], row["queries"], bool(row["note"])) for row in rows] == [
        (f"Short {SCRIPT}", 2, True),
        ("Sentence", 1, False),
    ]
    bad = files[0].with_name("bad.json")
    bad.write_text('{"q": {"settings": {}}}')
    assert arena("judge", bad, "--list") == 1
    assert "no text under 'search_query'" in capsys.readouterr().err


ENGINE_KEY, MODEL_KEY = "engine-key/with+signs-0123", "sk-model-key-0123456789"


def test_keys_that_services_repeat_are_kept_nowhere(
    tmp_path: Path,
    files: tuple[Path, Path],
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def repeats(seen: Seen, _: int) -> Answer:
        said = f"{seen.headers['authorization']} {ENGINE_KEY} {MODEL_KEY} {quote(ENGINE_KEY, safe='')}"
        if seen.path.endswith("/chat/completions"):
            return completion(told(3, 8, said))
        return as_json({"results": [{"title": f"On {said}", "abstract": said, "url": f"http://x/?key={said}"}]})

    server.play(repeats)
    monkeypatch.setenv("ARENA_URL_ENGINE_KEY", ENGINE_KEY)
    monkeypatch.setenv("ARENA_LLM_API_KEY", MODEL_KEY)
    store = ("--root", tmp_path / "store")
    engine = f"url:{server.url}/search"
    asked = ("judge", files[0], *store, *QUICK, "--edition", "e", "--engines", engine, "--to", tmp_path / "page")
    assert arena(*asked) == 0, capsys.readouterr().err
    assert arena("llm", "seal", *store, "--edition", "e", "--to", tmp_path / "sealed.jsonl") == 0
    heard = repr(server.seen)
    assert ENGINE_KEY in heard and MODEL_KEY in heard
    printed = "".join(capsys.readouterr())
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    tables = [pl.read_parquet(path).rows() for path in kept if path.suffix == ".parquet"]
    assert "[API key]" in repr(tables)
    for key in (ENGINE_KEY, MODEL_KEY, quote(ENGINE_KEY, safe="")):
        assert key not in printed and key not in repr(tables)
        assert [path for path, data in kept.items() if key.encode() in data] == []
    (cache,) = (tmp_path / "store" / "llm").glob("calls.sqlite")
    assert cache.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("server")
def test_an_address_with_a_password_is_refused_before_anything_is_written(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("judge", files[0], "--root", tmp_path / "store", "--edition", "e")
    command = (*command, "--engines", "url:https://me:pass-word@host/find")
    assert arena(*command) == 2
    told_user = capsys.readouterr().err
    assert "user and password" in told_user and "pass-word" not in told_user
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"pass-word" in path.read_bytes()]
    with pytest.raises(ValidationError):
        EngineSettings(engine="url", engine_version=1, source="https://me:pass-word@host/", tag="x")
