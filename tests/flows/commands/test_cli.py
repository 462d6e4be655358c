"""The command line: exit codes, errors on one line, JSON that parses, and the way from a release to a report."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from flows import cli
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tests.flows.conftest import ONE
from tests.index.conftest import save_tiny_model

TITLE_BM25 = ("--baselines", "title", "--retrievers", "bm25", *ONE)


def test_from_a_release_to_a_report(arena):
    again = arena.json("build", "--buckets", 2, *ONE)
    assert {row["slot"] for row in again["counts"]} >= {"papers", "topics", "statistics"}

    found = arena.json("run", "discovery", *TITLE_BM25)
    (row,) = found["scores"]["graded"]
    assert row["run"] == "title.bm25.abstract"
    assert row["topics"] == row["covered"] > 0
    assert 0 < row["recall_10"] < row["recall_100"] <= 1

    selection = arena.json("run", "selection", *TITLE_BM25)
    assert set(selection["scores"]) == {"graded", "influential"}
    assert selection["datasets"] == found["datasets"]

    report = arena.json("report", "--to", arena.folder / "report")
    assert "title.bm25.abstract" in Path(report["report"]).read_text()


def test_a_second_run_executes_nothing_and_another_cutoff_only_run_and_scores(arena):
    def executed(*tokens: object) -> set[str]:
        code, _, err = arena(*tokens)
        assert code == 0, err
        lines = [line.split() for line in err.splitlines()]
        assert all(line[1] in ("built", "cached") for line in lines)
        return {line[0] for line in lines if line[1] == "built"}

    assert executed("build", "--buckets", 2, *ONE) == set()
    assert executed("run", "discovery", *TITLE_BM25) == {"run/title.bm25.abstract", "scores/title.bm25.abstract"}
    assert executed("run", "discovery", *TITLE_BM25) == set()
    assert executed("run", "selection", *TITLE_BM25, "--cutoff", 10) == {
        "run/title.bm25.abstract@10",
        "scores/title.bm25.abstract@10",
    }
    assert executed("build", "--buckets", 2, *ONE, "--force", "surveys") == {"surveys"}


def test_search_obeys_the_date(arena):
    hits = arena.json("search", "a survey of learning", "--retriever", "bm25", "--k", 20)
    years = [hit["year"] for hit in hits if hit["year"]]
    early = arena.json("search", "a survey of learning", "--retriever", "bm25", "--before", f"{max(years)}-01-01")

    assert len(hits) == 20
    assert early
    assert max(hit["year"] for hit in early) < max(years)


def test_search_falls_back_to_the_index_that_is_there_and_names_its_score(arena):
    code, out, err = arena("search", "a survey of learning", "--json")
    assert code == 0 and err == "edition 2026-01-06 has no embeddings of abstract: searching with bm25 alone\n"
    hits = json.loads(out)
    assert [hit["BM25"] for hit in hits] == sorted((hit["BM25"] for hit in hits), reverse=True)
    assert "cosine" not in hits[0] and "score" not in hits[0]
    assert hits == arena.json("search", "a survey of learning", "--retriever", "bm25", "--field", "abstract")
    assert arena("search", "x", "--field", "title")[0] == 2


def test_a_hybrid_search_shows_both_scores(arena, tmp_path):
    model = str(save_tiny_model(tmp_path / "tiny", seed=0))
    assert arena("index", "--model", model, *ONE)[0] == 0
    hits = arena.json("search", "a survey of learning", "--k", 150)
    assert {"BM25", "cosine"} < hits[0].keys() and len(hits) == 150
    assert all(hit["cosine"] is None or -1.001 <= hit["cosine"] <= 1.001 for hit in hits)
    alone = [
        arena.json("search", "a survey of learning", "--retriever", name, "--k", 150) for name in ("bm25", "dense")
    ]
    fused = reciprocal_rank_fusion([[hit["corpus_id"] for hit in found] for found in alone])[:150]
    assert [hit["corpus_id"] for hit in hits] == [paper for paper, _ in fused]


def test_editions_are_listed_shown_verified_and_published(arena):
    (edition,) = arena.json("edition", "list")
    assert (edition["edition"], edition["published"]) == ("2026-01-06", None)
    assert any(
        "release 2026-01-06 papers" in row["from"] for row in arena.json("edition", "show", "2026-01-06")["lineage"]
    )
    assert arena.json("edition", "verify", "2026-01-06") == []
    assert arena.json("edition", "publish", "2026-01-06")["published"]

    next(arena.folder.glob("store/papers/*/part-00000.parquet")).unlink()
    code, out, err = arena("edition", "verify", "2026-01-06", "--json")
    assert code == 1
    assert "/papers/" in json.loads(out)[0]["path"]
    assert "run: arena rerun --damaged --edition 2026-01-06" in err


def test_gc_only_lists_what_it_could_delete(arena):
    assert arena.json("gc") == {"deleted": False, "found": []}


def test_releases_are_listed_and_checked(arena):
    assert arena.json("release", "list") == [{"release": "2026-01-06"}]
    assert {row["dataset"] for row in arena.json("release", "check")["datasets"]} == {
        "papers",
        "abstracts",
        "citations",
        "s2orc_v2",
    }


@pytest.mark.parametrize("suffix", ["txt", "json"])
def test_rankings_are_scored_from_trec_files_and_from_json(arena, suffix):
    qrels, run = arena.folder / f"qrels.{suffix}", arena.folder / f"run.{suffix}"
    if suffix == "txt":
        qrels.write_text("t1 0 a 2\nt1 0 b 1\nt2 0 c 1\n")
        run.write_text("t1 Q0 a 1 2.0 x\nt1 Q0 z 2 1.0 x\n")
    else:
        qrels.write_text(json.dumps({"t1": {"a": 2, "b": 1}, "t2": {"c": 1}}))
        run.write_text(json.dumps({"t1": [["a", 2.0], ["z", 1.0]]}))

    found = arena.json("score", "ranking", qrels, run)

    assert found["per_topic"]["t1"]["recall_10"] == 0.5
    assert found["mean_evaluated"]["recip_rank"] == 1.0
    assert found["mean_all"]["recip_rank"] == 0.5


def test_the_selector_is_scored(arena):
    hits = arena.json("search", "survey", "--retriever", "bm25", "--k", 5)
    lines = [json.dumps({"corpusid": hit["corpus_id"], "title": hit["title"], "label": "yes"}) for hit in hits]
    labels = arena.folder / "labels.jsonl"
    labels.write_text("\n".join(lines))

    assert arena.json("corpus", "score-selector", labels)["labelled"] == sum(hit["title"] is not None for hit in hits)


@pytest.mark.parametrize(
    ("tokens", "code", "says"),
    [
        (("build", "--release", "1999-01-01"), 1, "release '1999-01-01' is not in"),
        (("build", "--releases", "nowhere"), 1, "no release in nowhere; choose another --releases"),
        (("build", "--corpus", "nonsense"), 2, "--corpus 'nonsense': Input should be 'full_text' or 'abstract'"),
        (("build", "--buckets", "0"), 2, "--buckets"),
        (("build", "--nonsense"), 2, "--nonsense"),
        (("nonsense",), 2, "nonsense"),
        (("run", "discovery", "--baselines", "nope", "--retrievers", "bm25"), 2, "there are: "),
        (("run", "discovery", "--field", "title"), 2, "run: arena index --field title"),
        (("index", "--edition", "nope"), 2, "no edition 'nope'"),
        (("search", "x", "--retriever", "dense"), 2, "run: arena index"),
        (("edition", "show", "../x"), 2, "NAME '../x': expected 1 to 64 of"),
        (("score", "ranking", "absent.txt", "absent.txt"), 1, "absent.txt: cannot be read"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(arena, tokens, code, says):
    found, out, err = arena(*tokens)

    assert found == code
    assert out == ""
    assert says in err
    assert err.startswith("arena: ")
    assert err.count("\n") == 1


def test_an_unwritable_root_is_a_clear_error(arena):
    (arena.folder / "file").write_text("")
    code, _, err = arena("edition", "list", "--root", arena.folder / "file" / "store")

    assert code == 1
    assert "choose another --root" in err


def test_a_wrong_line_of_a_run_file_is_named(arena):
    qrels, run = arena.folder / "qrels", arena.folder / "run"
    qrels.write_text("t1 0 a 1\n")
    run.write_text("t1 Q0 a 1 2.0 x\nt1 a 2.0\n")

    code, _, err = arena("score", "ranking", qrels, run)

    assert code == 1
    assert f"{run}, line 2" in " ".join(err.split())


def test_the_installed_command_knows_nothing_of_prefect(arena):
    """A run without a server must not pay for, or need, Prefect."""
    program = (
        "import sys; from flows import cli;"
        f"cli.app.meta(['run', 'discovery', '--root', {str(arena.folder / 'store')!r}, '--baselines', 'title',"
        " '--retrievers', 'bm25', '--until', 'topics'], exit_on_error=False);"
        "sys.exit('prefect' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0


def test_every_command_says_what_it_does():
    def walk(app: App) -> Iterator[App]:
        for command in app.resolved_commands().values():
            yield command
            yield from walk(command)

    commands = list(walk(cli.app))

    assert len(commands) > 15
    assert all(command.help for command in commands)


def test_bad_usage_of_the_installed_command():
    done = subprocess.run([sys.executable, "-m", "flows.cli", "search"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
