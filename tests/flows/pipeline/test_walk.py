"""The walk over a plan: order of stages, what executes again, and what the edition records."""

import shutil
from dataclasses import replace

import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.stages import StageControl
from schemas.errors import BadInput, StageFailed, UsageError
from schemas.gate import GateSettings
from tasks.release.gate import check_release
from tasks.store.editions import Editions


def test_stages_run_in_order_and_are_recorded(pipeline, chain):
    built = pipeline.walk(chain.steps(42), release="r")

    assert chain.executed == ["papers", "surveys", "references"]
    edition = Editions(pipeline.store).load("e")
    assert edition.release == "r"
    assert edition.slots == built
    assert pipeline.store.open(built["references"]).path("number").read_text() == "4"


def test_a_second_run_executes_nothing(pipeline, chain):
    first = pipeline.walk(chain.steps(42), release="r")
    chain.executed.clear()

    assert pipeline.walk(chain.steps(42), release="r") == first
    assert chain.executed == []


def test_equal_bytes_keep_what_comes_after(pipeline, chain):
    pipeline.walk(chain.steps(42), release="r")
    chain.executed.clear()

    pipeline.walk(chain.steps(43), release="r")

    assert chain.executed == ["papers", "surveys"]


def test_a_forced_stage_executes_and_nothing_after_it(pipeline, chain):
    first = pipeline.walk(chain.steps(42), release="r")
    chain.executed.clear()

    forced = replace(pipeline, control=StageControl(force=("papers",)))

    assert forced.walk(chain.steps(42), release="r") == first
    assert chain.executed == ["papers"]


def test_until_ends_the_walk(pipeline, chain):
    built = replace(pipeline, control=StageControl(until="surveys")).walk(chain.steps(42), release="r")

    assert list(built) == ["papers", "surveys"]
    assert list(Editions(pipeline.store).load("e").slots) == ["papers", "surveys"]


def test_a_walk_goes_on_from_what_the_edition_has(pipeline, chain):
    papers, *rest = chain.steps(42)
    pipeline.walk([papers], release="r")

    assert list(pipeline.walk(rest)) == ["surveys", "references"]


def test_what_is_missing_is_named_with_the_command_that_makes_it(pipeline, chain):
    papers, _, references = chain.steps(42)
    pipeline.walk([papers], release="r")

    with pytest.raises(UsageError, match="edition e has no surveys, which references needs; run: arena build"):
        pipeline.walk([references])


def test_an_edition_must_exist_to_be_continued(pipeline, chain):
    with pytest.raises(UsageError, match="no edition 'e'"):
        pipeline.walk(chain.steps(42))


@pytest.mark.parametrize("trouble", [ValueError("no such column"), BadInput("no such column")])
def test_a_failure_names_stage_and_cause_and_keeps_what_was_done(pipeline, chain, trouble):
    chain.trouble.append(trouble)

    with pytest.raises((StageFailed, BadInput), match=r"stage surveys: .*no such column"):
        pipeline.walk(chain.steps(42), release="r")

    assert list(Editions(pipeline.store).load("e").slots) == ["papers"]
    chain.executed.clear()
    pipeline.walk(chain.steps(42), release="r")
    assert chain.executed == ["surveys", "references"]


def test_the_newest_release_is_the_newest_that_was_not_refused(built, tmp_path):
    releases = shutil.copytree(built / "releases", tmp_path / "releases")
    shutil.copytree(releases / "2026-01-06", releases / "2026-01-13")
    for text in (releases / "2026-01-13" / "papers").iterdir():
        text.write_bytes(b"")
    machine = Machine(root=tmp_path / "store", releases=releases)
    for release in ("2026-01-06", "2026-01-13"):
        check_release(releases, release, GateSettings())
    assert open_files(machine, None)["papers"].release == "2026-01-06"
