"""The external sort equals sorting in memory, whatever the sizes of runs, batches and windows."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.corpus import external_sort
from tasks.corpus.external_sort import RunWriter, merge_runs


@pytest.fixture(scope="module", autouse=True)
def small_sizes() -> Iterator[None]:
    """Sizes at which a few rows already make several runs and batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "RUN_BYTES", 200)
        patch.setattr(external_sort, "BATCH_BYTES", 40)
        patch.setattr(external_sort, "WINDOW_BATCHES", 2)
        patch.setattr(external_sort, "FAN_IN", 3)
        yield


def rows(keys: list[int], first: int) -> pa.Table:
    names = [f"row {first + n}" for n in range(len(keys))]
    return pa.table(
        {"key": keys, "name": names, "tags": [[name] for name in names]},
        pa.schema({"key": pa.int64(), "name": pa.string(), "tags": pa.list_(pa.string())}),
    )


@settings(deadline=None, max_examples=50)
@given(
    inputs=st.lists(st.lists(st.lists(st.integers(0, 12), max_size=12), max_size=4), min_size=1, max_size=3),
    buckets=st.integers(1, 4),
)
def test_merging_equals_sorting_in_memory(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[list[list[int]]], buckets: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs: list[tuple[int, Path]] = []
    expected: list[tuple[int, int, str]] = []
    number = 0
    for place, tables in enumerate(inputs):
        names = count()
        writer = RunWriter(lambda place=place, names=names: folder / f"{place}-{next(names):03d}", "key", buckets)
        for keys in tables:
            table = rows(keys, number)
            writer.write(table)
            expected += [(key, place, f"row {number + n}") for n, key in enumerate(keys)]
            number += len(keys)
        writer.close()
        runs += [(place, path) for path in sorted(folder.glob(f"{place}-*"))]
    for bucket in range(buckets):
        windows = list(merge_runs(runs, "key", bucket))
        found: list[tuple[int, int, str]] = []
        for window in windows:
            keys = window["key"].to_numpy()
            assert not found or not len(keys) or min(keys) > found[-1][0]
            table = window.take(np.argsort(keys, kind="stable"))
            assert table["tags"].to_pylist() == [[name] for name in table["name"].to_pylist()]
            found += zip(*(table[name].to_pylist() for name in ("key", "place", "name")), strict=True)
        assert found == sorted((row for row in expected if row[0] % buckets == bucket), key=lambda row: row[0])


@pytest.mark.timeout(20)
def test_a_bucket_without_rows_ends_after_many_runs(tmp_path: Path) -> None:
    names = count()
    writer = RunWriter(lambda: tmp_path / f"{next(names):03d}", "key", 2)
    for _ in range(4 * external_sort.FAN_IN):
        writer.write(rows([0, 2, 4] * 20, 0))
    writer.close()
    runs = [(0, path) for path in sorted(tmp_path.iterdir())]
    assert len(runs) > external_sort.FAN_IN
    assert list(merge_runs(runs, "key", 1)) == []


@pytest.mark.long
def test_a_merge_holds_only_a_few_batches_of_each_run(tmp_path: Path) -> None:
    names = count()
    writer = RunWriter(lambda: tmp_path / f"{next(names):03d}", "key", 1)
    for start in range(0, 1000, 10):
        writer.write(rows(list(range(start % 7, 1000, 100)), start))
    writer.close()
    runs = [(0, path) for path in sorted(tmp_path.iterdir())]
    assert len(runs) > 30
    sizes = [window.num_rows for window in merge_runs(runs, "key", 0)]
    assert sum(sizes) == 1000
    assert max(sizes) < 500
    assert not list(tmp_path.parent.glob("merge-*"))
