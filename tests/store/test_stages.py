"""Where stages are found, and their order."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from schemas.errors import MissingDependency, UsageError
from tasks.store import stages
from tasks.store.stage import Stage
from tasks.store.stages import declared_stages, find_stage, stage_position

PLUGIN = """
from schemas.settings import Settings
from tasks.store.stage import stage

@stage("{name}", version=4, settings=Settings, after={after!r})
def extra(work): ...
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Installs a module under the entry point group of stages."""
    installed: list[EntryPoint] = []

    def add(module: str, text: str) -> None:
        (tmp_path / f"{module}.py").write_text(text)
        installed.append(EntryPoint(module, module, stages.ENTRY_POINTS))
        declared_stages.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(stages, "entry_points", lambda group: installed)
    yield add
    declared_stages.cache_clear()


def test_every_declared_stage_is_found_and_every_stage_is_declared():
    found = {name: find_stage(name) for name in declared_stages()}
    assert all(stage.name == name for name, stage in found.items())
    assert {name: stage.after for name, stage in found.items()} == {d.name: d.after for d in declared_stages().values()}

    modules = {importlib.import_module(declaration.module) for declaration in declared_stages().values()}
    objects = {value.name for module in modules for value in vars(module).values() if isinstance(value, Stage)}
    assert objects == set(declared_stages())


def test_the_order_is_that_of_data():
    names = list(declared_stages())

    assert names[:5] == ["paper_records", "abstract_records", "citation_records", "full_texts", "papers"]
    assert names[-2:] == ["report", "details"]  # which only the served desk asks for
    wanted = ["documents", "topics", "bm25", "embeddings", "ann", "run", "scores", "organize", "tree_scores"]
    assert [name for name in names if name in wanted] == wanted


def test_stages_are_listed_without_importing_them():
    script = "import sys; from tasks.store.stages import declared_stages; declared_stages(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not {d.module for d in declared_stages().values()} & set(done.stdout.split())


def test_a_stage_of_another_package_is_found_behind_the_one_it_follows(install):
    install("their_stage", PLUGIN.format(name="extra", after="run"))

    assert find_stage("extra").version == 4
    assert stage_position("run") + 1 == stage_position("extra") < stage_position("scores")


def test_a_stage_that_follows_none_comes_last(install):
    install("loose_stage", PLUGIN.format(name="loose", after=None))

    assert list(declared_stages())[-1] == "loose"
    assert stage_position("not_installed") > stage_position("loose")


def test_two_stages_of_one_name_are_refused(install):
    install("second_papers", PLUGIN.format(name="papers", after=None))

    with pytest.raises(UsageError, match=r"tasks\.corpus\.papers and in second_papers"):
        declared_stages()


def test_a_stage_that_is_not_there_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="no stage is named 'paper'; there are: paper_records, "):
        find_stage("paper")


def test_a_stage_whose_package_is_missing_says_so(install):
    install("needy_stage", "import not_there_at_all" + PLUGIN.format(name="needy", after=None))

    with pytest.raises(MissingDependency, match="stage needy: No module named 'not_there_at_all'"):
        find_stage("needy")


def test_an_entry_point_without_module_is_named(install, tmp_path):
    install("gone_stage", "")
    (tmp_path / "gone_stage.py").unlink()

    with pytest.raises(UsageError, match="entry point gone_stage"):
        declared_stages()
