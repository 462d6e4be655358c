"""Merging 600 and 6,000 runs of one bucket: seconds of processor time and peak memory, each in a process of its own."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from rich.table import Table

from tasks.corpus.external_sort import RunWriter, merge_runs
from tests.conftest import REPOSITORY

ROWS = 400
"""Rows of a run, of about 170 bytes: a bucket's share of a run at full size."""

MOST_MEMORY = 512 * 2**20
MOST_COST = 2.0
"""How much more a run may cost among 6,000 than among 600; the second pass reads and writes everything once more."""

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]


def write_runs(folder: Path, runs: int) -> None:
    """Writes runs whose keys overlap."""
    folder.mkdir()
    rng = np.random.default_rng(runs)
    text = pa.array(["x" * 160] * ROWS)
    for number in range(runs):
        writer = RunWriter(lambda number=number: folder / f"{number:05d}.arrow", "key", 1)
        writer.write(pa.table({"key": rng.integers(0, 10**9, ROWS), "text": text}))
        writer.close()


def merge(folder: Path) -> str:
    """Merges them; returns rows, processor seconds and peak memory in bytes."""
    runs = [(0, path) for path in sorted(folder.iterdir())]
    start = time.process_time()
    rows = sum(window.num_rows for window in merge_runs(runs, "key", 0))
    return f"{rows} {time.process_time() - start} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}"


def test_a_merge_is_linear_and_its_memory_bounded(tmp_path: Path) -> None:
    table = Table("runs", "processor s", "ms a run", "peak MiB", title="merging the runs of one bucket")
    costs: list[float] = []
    for runs in (600, 6000):
        (tmp_path / str(runs)).mkdir()
        write_runs(tmp_path / str(runs) / "runs", runs)
        command = [sys.executable, "-m", "tests.bench.test_merge_bench", str(tmp_path / str(runs) / "runs")]
        done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
        rows, seconds, peak = (float(word) for word in done.stdout.split())
        assert rows == runs * ROWS
        assert peak < MOST_MEMORY
        costs.append(seconds / runs)
        table.add_row(f"{runs:,}", f"{seconds:.1f}", f"{1000 * seconds / runs:.2f}", f"{peak / 2**20:.0f}")
    Console(width=100).print(table)
    assert costs[1] < MOST_COST * costs[0]


if __name__ == "__main__":
    print(merge(Path(sys.argv[1])))  # noqa: T201
