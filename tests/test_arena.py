"""The public interface: which names it has, that they load, that importing it is cheap, and editions in notebooks."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import arena
from tests.exports.conftest import TAG, publish_run
from tests.published import publish_topics, topic_row

NAMES = """
    Answered ArenaError Asker BadInput Candidate Column Dataset Demand Document Edition Engine EngineKit Evaluation
    Example Found Hit Judged Kit Material ModelConnection Organized Outcome Paper PaperQaDesk PaperQaKit
    PaperQaQuestion PaperQaStep Parameters Plugin Prompt Ranking References Reply ResearchDesk Settings StageFailed
    SurveyVerdict Table Topic TransientError Tree UsageError Vector Verdict WeightedTerms Workspace __version__
    baseline builder declare engine evaluate_answer evaluate_run exporter heading_entity_recall heading_soft_recall
    judge load_tree lone_node measure open_edition paperqa_baseline plugins read_prompt reciprocal_rank_fusion stage
    survey_selector tree_edit_distance tree_semantic_distance write_lines write_rows
"""
"""The public interface. A name that is added, renamed or taken out is a change of the interface: see CHANGELOG.md."""

EXPORTERS = ["beir", "hf", "ir_datasets", "parquet", "researcharena", "search_trec", "served_calls", "trec"]


def test_the_names_are_those_that_are_promised() -> None:
    assert arena.__all__ == NAMES.split()
    assert dir(arena) == arena.__all__


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_loads_and_stands_in_the_module_docstring(name: str) -> None:
    assert getattr(arena, name) is getattr(arena, name)
    assert f"`{name}`" in (arena.__doc__ or "")


def test_an_unknown_name_says_where_to_look() -> None:
    with pytest.raises(AttributeError, match=r"arena\.__all__"):
        arena.__getattr__("bassline")


def test_importing_it_loads_nothing_of_the_project_and_no_library() -> None:
    code = "import sys; before = set(sys.modules); import arena; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in found.stdout.split()}
    assert loaded <= {"arena", *sys.stdlib_module_names}


def test_type_checkers_are_told_the_modules_that_names_are_loaded_from() -> None:
    """The imports under TYPE_CHECKING and the table of homes say the same."""
    source = Path(arena.__file__ or "").read_text()
    for public, (module, private) in arena._LOADED_FROM.items():
        imported = private if public == private else f"{private} as {public}"
        assert any(
            line.strip().startswith(f"from {module} import ") and imported in line.partition(" import ")[2].split(", ")
            for line in source.replace("\n", ", ").replace(",     from", "\n    from").split("\n")
        ), public


def test_the_version_is_that_of_the_package() -> None:
    assert arena.__version__ == version("research-arena")


def test_plugins_are_listed_with_a_sentence_each() -> None:
    found = arena.plugins()
    kinds = {plugin.kind for plugin in found}
    assert kinds == {
        *("measure", "baseline", "builder", "search engine", "judge"),
        *("AirQA system", "survey selector", "exporter", "stage"),
    }
    assert (
        arena.Plugin("judge", "score_only", "Six levels of relevance alone, to compare with.", "arena.judges") in found
    )
    assert {plugin.name for plugin in arena.plugins("exporter")} == set(EXPORTERS)
    assert [plugin for plugin in found if not plugin.description] == []
    with pytest.raises(arena.UsageError, match="no kind of plug-in is named 'metric'; there are: measure, baseline"):
        arena.plugins("metric")


def test_an_edition_opens_by_name_from_the_root_given_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.store.editions import Editions
    from tasks.store.store import Store

    store = Store(tmp_path)
    qrels = {1: {10: 2, 11: 1}, 2: {12: 1}}
    slots = {"topics": publish_topics(store, [topic_row(1), topic_row(2)], qrels)}
    slots[f"run/{TAG}"] = publish_run(store, TAG, {1: {10: 2.0, 11: 1.0}, 2: {13: 1.0}})
    Editions(store).record("small", "2026-01-06", slots)
    edition = arena.open_edition("small", tmp_path)
    assert edition.table("qrels").collect().height == 3
    assert edition.sql("SELECT sum(relevance) FROM qrels").fetchall() == [(4,)]
    means = arena.evaluate_run(edition.qrels(), edition.run(TAG))["mean_all"]
    assert means is not None
    assert means["recall_10"] == 0.5
    monkeypatch.setenv("ARENA_ROOT", str(tmp_path))
    assert arena.open_edition("small").runs() == (TAG,)
    with pytest.raises(arena.UsageError, match=r"no edition 'large' in .*; there are: small"):
        arena.open_edition("large")


def test_the_command_exports_an_edition(tmp_path: Path) -> None:
    from tasks.store.editions import Editions
    from tasks.store.store import Store

    store = Store(tmp_path / "root")
    Editions(store).record("small", "2026-01-06", {"topics": publish_topics(store, [topic_row(1)], {1: {10: 2}})})
    command = [sys.executable, "-m", "flows.cli", "export", "small", "--root", store.root, "--to", tmp_path / "out"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "edition": "small",
        "format": "trec",
        "files": [str(tmp_path / "out" / name) for name in ("qrels.txt", "topics.tsv")],
    }
    assert (tmp_path / "out" / "qrels.txt").read_text() == "1 0 10 2\n"
    refused = subprocess.run([*command, "--format", "csv"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == f"arena: no exporter is named 'csv'; there are: {', '.join(EXPORTERS)}\n"
