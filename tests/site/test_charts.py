"""Charts show every series that they name."""

import re

from tasks.site.charts import Axis, Series, draw_lines


def test_a_series_of_a_single_point_is_a_dot_at_the_height_of_its_name() -> None:
    both = [Series("old", [(0, 0.2), (1, 0.4)]), Series("new", [(1, 0.9)])]
    drawn = draw_lines(both, Axis("Edition", ("2026-01-06", "2026-01-13")), Axis("Recall@100"))
    assert drawn.count("<polyline") == 1
    ((x, y),) = re.findall(r'<circle class="f s1" cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert float(x) == max(float(place) for place in re.findall(r"(\d+\.\d),", drawn)), "it is in the newest edition"
    (name,) = re.findall(r'<text class="n s1"[^>]* y="([\d.]+)"', drawn)
    assert float(name) == float(y) + 4
