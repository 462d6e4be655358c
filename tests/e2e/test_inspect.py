"""The tasks for inspect_ai over a served desk (importing inspect_ai takes seconds)."""

import json
from pathlib import Path

import pytest

from tests.service.conftest import Start, poisoned, start  # noqa: F401 (fixtures)
from tests.service.doors import by_inspect, by_plug_in, rows

pytestmark = pytest.mark.e2e


def test_a_scripted_model_has_the_rows_of_the_plug_in(start: Start, tmp_path: Path) -> None:  # noqa: F811
    served = start()
    expected = rows(served.root, by_plug_in(served.root))
    run, log = by_inspect(served, tmp_path)
    assert rows(served.root, run) == expected
    (scored,) = log.results.scores
    assert scored.name == "arena"
    assert 0 < scored.metrics["recall_100"].value <= 1
    assert {sample.scores["arena"].value for sample in log.samples} == {1.0}
    text = next((tmp_path / "logs").iterdir()).read_bytes()
    assert b"topic_token" not in text


def test_the_tasks_are_known_by_their_names() -> None:
    from inspect_ai._util.registry import registry_lookup

    import flows.inspect_tasks as tasks

    for name in ("discovery", "selection", "organization", "paperqa"):
        assert registry_lookup("task", f"arena/{name}") is getattr(tasks, name)


def test_what_the_desk_does_not_show_is_no_mean() -> None:
    from flows.inspect_tasks import read_means

    assert read_means(None) == {}
    assert read_means({"graded": {"recall_10": 0.5, "low": None}, "influential": {}}) == {"recall_10": 0.5}
    assert json.dumps(read_means({"trees": {"hsr": 1}})) == '{"hsr": 1.0}'
