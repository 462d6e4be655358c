"""One system through every door: equal rankings and scores, row by row."""

from pathlib import Path

from tests.service.conftest import Start
from tests.service.doors import by_file, by_mcp, by_plug_in, by_rest, rows, scores


def test_a_system_has_the_same_rows_through_every_door(start: Start, tmp_path: Path) -> None:
    served = start()
    ours = by_plug_in(served.root)
    runs = [by_rest(served), by_mcp(served), by_file(served.root, tmp_path)]
    expected = rows(served.root, ours)
    assert len({topic for topic, _, _ in expected}) == 3
    for run in runs:
        assert rows(served.root, run) == expected, run
        assert scores(served.root, run) == scores(served.root, ours), run
