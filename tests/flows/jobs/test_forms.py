"""Forms of runs: basic fields first, the others in one group, choices from the store, titles in words."""

import json
from typing import Any

import pytest
from prefect.utilities.schema_tools.validation import validate

from flows.jobs.forms import BASIC, fill_choices, form_of, offered_choices, stored_choices
from flows.jobs.parameters import Expert, choose
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import newest_edition
from flows.server.deployments import CATALOGUE
from schemas.errors import UsageError
from schemas.settings import CorpusSettings, RunSettings
from tasks.store.editions import Editions

FORMS = {job.name: form_of(job.load(), {"editions": ["newest", "2026-01-06"]}) for job in CATALOGUE}


def fields(node: Any, path: str = "") -> dict[str, dict[str, Any]]:
    """Every field that a form shows, by its path; those of a group that is closed at first too."""
    found: dict[str, dict[str, Any]] = {}
    for part in [node, *node.get("anyOf", ())]:
        for name, field in part.get("properties", {}).items():
            found |= {f"{path}{name}": field} | fields(field, f"{path}{name}.")
    return found


@pytest.mark.parametrize("name", FORMS)
def test_titles_are_words_and_nothing_asks_for_a_type(name):
    for path, field in fields(FORMS[name]).items():
        assert field["title"][0].isupper() and "_" not in field["title"], path
        kinds = [option.get("type") for option in field.get("anyOf", ())]
        assert "null" not in kinds or kinds == ["null", "object"], f"{path}: an empty field says the same"
        assert field.get("description") or field.get("properties"), path


@pytest.mark.parametrize("name", [name for name in FORMS if name in BASIC])
def test_one_group_is_closed_at_first_and_holds_what_is_not_basic(name):
    form = FORMS[name]
    order = sorted(form["properties"], key=lambda field: form["properties"][field]["position"])
    assert order[-1] == "expert" and form["properties"]["expert"]["default"] is None
    assert not {"control", "machine", "upstream"} & form["properties"].keys()
    shown = {path for path in fields(form["properties"]["settings"]) if not path.startswith("expert")}
    assert {path for path in shown if not any(other.startswith(f"{path}.") for other in shown)} == set(BASIC[name])
    assert len(shown) < 10


def test_values_are_taken_in_the_group_and_where_the_flow_has_them_and_refused_in_both():
    form = FORMS["discovery"]
    for good in (
        {"settings": {"limit_topics": 3}, "machine": {"workers": 1}},
        {"expert": {"settings": {"limit_topics": 3}, "machine": {"workers": 1}}},
        {"expert": None, "settings": {"model": None}},
    ):
        assert not validate(good, form), good
    for wrong in (
        {"settings": {"limit_topics": 0}},
        {"settings": {"limit_topcs": 3}},
        {"expert": {"settings": {"limit_topics": 0}}},
        {"expert": {"settings": {"cutof": 3}}},
        {"edition": "2026-01-13"},
        {"machine": {"workers": -1}},
    ):
        assert validate(wrong, form), wrong


def test_the_expert_group_wins_and_an_empty_text_is_nothing():
    expert = Expert.model_validate(
        {"settings": {"limit_topics": 3, "cutoff": 5, "model": ""}, "machine": {"workers": 2}, "control": None}
    )
    found = choose(RunSettings(cutoff=7, baselines=("title",)), StageControl(max_usd=1), Machine(workers=1), expert)
    assert (found.settings.limit_topics, found.settings.cutoff, found.settings.model) == (3, 5, None)
    assert (found.settings.baselines, found.machine.workers, found.control.max_usd) == (("title",), 2, 1)
    assert choose(RunSettings(cutoff=7), StageControl(), None, None).settings.cutoff == 7
    assert CorpusSettings.model_validate({"figure_list_url": "", "survey_scope": ""}) == CorpusSettings()


def test_choices_come_from_the_store_and_the_mirror_and_can_be_read_back(built):
    here = stored_choices(built / "store", built / "releases")
    assert here == {"editions": ["newest", "2026-01-06"], "releases": ["newest", "2026-01-06"]}
    assert stored_choices(built / "none", built / "none") == {}
    form = json.loads(json.dumps(FORMS["build-corpus"]))
    fill_choices(form, here)
    assert form["properties"]["release"]["enum"] == here["releases"]
    assert "enum" not in form["properties"]["edition"], "a new edition has a new name"
    assert offered_choices(form) == {"releases": here["releases"]}


def test_newest_is_the_edition_of_the_newest_release_that_has_documents(store, chain, pipeline):
    with pytest.raises(UsageError, match="arena build"):
        newest_edition(store)
    ref = pipeline.walk(chain.steps(1), release="2026-01-06")["papers"]
    for name, release, slot in (
        ("2026-01-06", "2026-01-06", "documents"),
        ("mine", "2026-01-13", "documents"),
        ("airqa", "airqa", "airqa/questions"),
    ):
        Editions(store).record(name, release, {slot: ref})
    assert newest_edition(store) == "mine"
    Editions(store).record("other", "2026-01-13", {"documents": ref})
    with pytest.raises(UsageError, match="name one of: mine, other"):
        newest_edition(store)
    Editions(store).record("2026-01-13", "2026-01-13", {"documents": ref})
    assert newest_edition(store) == "2026-01-13"
