"""Plans a long command before it runs: rows, bytes, memory and hours by stage, and whether the machine suffices.

The rates are those of earlier datasets of the same stages, whose manifests say what they used. Where the store has
none, they are those of a benchmark (`rates.toml`), and the plan says so.
"""

import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from flows.pipeline.plans.steps import Step
from schemas.errors import StoreError
from schemas.manifest import Manifest, Ref
from schemas.release import ReleaseDataset
from schemas.settings import Resources
from tasks.store.editions import Editions
from tasks.store.store import Request, Store

ALIKE = {"embeddings": ("field", "encoder"), "bm25": ("field",), "run": ("baseline", "retriever", "model")}
"""Settings in which a dataset must be equal, so that its rates hold for a step of the same stage."""

UNKNOWN = ("embeddings", "figures", "extracted_mindmaps")
"""Stages without a usual rate: it depends on the encoder and the device, on a server, or on a model."""


class Rate(NamedTuple):
    """What a stage uses for a unit of its input: a byte, or for a run a topic and document.

    Attributes:
        cpu: Processor seconds for a unit.
        threads: Mean number of busy processors; `workers`: it has worker processes, so more processors make it faster.
        kept: Bytes that it publishes for a unit.
        rows: Rows that it publishes for a unit.
        written: Bytes that it writes for a unit, intermediate files included.
        peak: Bytes of memory of its process, and of a worker (0: none).
        basis: Where the rate comes from.
    """

    cpu: float
    threads: float
    workers: bool
    kept: float
    rows: float
    written: float
    peak: tuple[float, float]
    basis: str


class Size(NamedTuple):
    """Size of a dataset, known or planned."""

    bytes: float
    rows: float


class StagePlan(NamedTuple):
    """What one step will take; hours None: not known. `basis`: `stored`, `measured ...` or `usual`."""

    slot: str
    rows: int
    gb: float
    scratch_gb: float
    memory_gib: float
    hours: float | None
    basis: str


class CapacityPlan(NamedTuple):
    """A plan by stage, the machine's free disk and memory, and the number of buckets (None: not part of the plan)."""

    stages: list[StagePlan]
    free_gb: float
    memory_gib: float
    buckets: int | None

    @property
    def disk_gb(self) -> float:
        """Disk that is needed: all datasets, and the largest scratch of a stage."""
        return sum(stage.gb for stage in self.stages) + max((stage.scratch_gb for stage in self.stages), default=0)

    @property
    def hours(self) -> float:
        """Hours of the stages whose rate is known."""
        return sum(stage.hours or 0 for stage in self.stages)

    def summary(self) -> str:
        """Returns the plan in one line."""
        unknown = [stage.slot for stage in self.stages if stage.hours is None]
        memory = max((stage.memory_gib for stage in self.stages), default=0)
        parts = [
            f"about {self.hours:.1f} h"
            + (f" without {', '.join(unknown)}, whose rate is not known" if unknown else ""),
            f"{self.disk_gb:,.1f} GB of disk ({self.free_gb:,.0f} GB free)",
            f"{memory:.1f} GiB of memory ({self.memory_gib:.0f} free)",
        ]
        return "; ".join(parts + ([f"{self.buckets} buckets"] if self.buckets else []))

    def require_enough(self) -> None:
        """Checks that disk and memory suffice.

        Raises:
            StoreError: They do not.
        """
        if self.disk_gb > self.free_gb:
            raise StoreError(
                f"plan: {self.disk_gb:,.1f} GB of disk are needed and {self.free_gb:,.1f} GB are free; free some, or "
                "choose another --root"
            )
        largest = max(self.stages, key=lambda stage: stage.memory_gib, default=None)
        if largest and largest.memory_gib > self.memory_gib:
            raise StoreError(
                f"plan: {largest.slot} needs {largest.memory_gib:.1f} GiB of memory and {self.memory_gib:.1f} GiB are "
                "free; choose fewer --workers, more --buckets, or a larger machine"
            )


def plan_capacity(store: Store, edition: str, steps: Sequence[Step], resources: Resources) -> CapacityPlan:
    """Estimates what steps will take.

    Args:
        store: Where earlier datasets are, whose rates hold for this machine.
        edition: The edition that the steps are for; it need not exist yet.
        steps: The plan.
        resources: Of this machine.
    """
    editions = Editions(store)
    slots = editions.load(edition).slots if edition in editions.names() else {}
    planner = _Planner(store, slots, resources.workers or len(os.sched_getaffinity(0)))
    stages = [planner.plan(step) for step in steps]
    buckets = next((step.settings.model_dump().get("buckets") for step in steps if step.slot == "paper_records"), None)
    return CapacityPlan(stages, shutil.disk_usage(store.root).free / 1e9, _free_memory() / 2**30, buckets)


class _Planner:
    """Plans steps in order: the size of a step's output is the input of those after it."""

    def __init__(self, store: Store, slots: Mapping[str, Ref], processes: int) -> None:
        self._store, self._processes = store, processes
        self._refs = dict(slots)
        self._sizes = {slot: _size_of(store.open(ref).manifest) for slot, ref in slots.items()}

    def plan(self, step: Step) -> StagePlan:
        found = self._find_stored(step)
        if found is not None:
            self._refs[step.slot], self._sizes[step.slot] = found.ref, _size_of(found)
            return StagePlan(step.slot, int(self._sizes[step.slot].rows), 0.0, 0.0, 0.0, 0.0, "stored")
        self._refs.pop(step.slot, None)
        inputs = {name: self._input_size(item) for name, item in step.inputs.items()}
        rate = self._rate(step)
        units = _units(step.stage.name, inputs, self._topics(step))
        size = self._sizes[step.slot] = Size(units * rate.kept, units * rate.rows)
        faster = self._processes if rate.workers else max(1.0, min(rate.threads, self._processes))
        memory = rate.peak[0] + rate.peak[1] * self._processes
        hours = None if rate.basis == "unknown" else units * rate.cpu / faster / 3600
        scratch = max(0.0, units * (rate.written - rate.kept))
        return StagePlan(
            step.slot, round(size.rows), size.bytes / 1e9, scratch / 1e9, memory / 2**30, hours, rate.basis
        )

    def _find_stored(self, step: Step) -> Manifest | None:
        inputs: dict[str, Ref | ReleaseDataset] = {}
        for name, item in step.inputs.items():
            if isinstance(item, str) and item not in self._refs:
                return None
            inputs[name] = self._refs[item] if isinstance(item, str) else item
        found = self._store.find(step.stage.name, Request(step.stage, step.settings, inputs).key)
        return found.manifest if found else None

    def _input_size(self, item: str | ReleaseDataset | Ref) -> Size:
        if isinstance(item, str):
            return self._sizes.get(item, Size(0, 0))
        if isinstance(item, Ref):
            return _size_of(self._store.open(item).manifest)
        return Size(sum(file.size for file in item.files), 0)

    def _topics(self, step: Step) -> float:
        """Returns the number of topics that a run answers: at most those of the edition."""
        settings = step.settings.model_dump()
        limits = [settings.get(name) for name in ("limit_topics", "sample_topics")]
        return min([self._sizes.get("topics", Size(0, 0)).rows, *(limit for limit in limits if limit)])

    def _rate(self, step: Step) -> Rate:
        """Returns the rate of the newest dataset of the stage whose settings are alike, or else the usual one."""
        name = step.stage.name
        wanted = step.settings.model_dump(mode="json")
        for dataset in self._store.published(name):
            made = dataset.manifest
            alike = all(made.parameters.get(field) == wanted.get(field) for field in ALIKE.get(name, ()))
            if made.usage and alike and (units := self._units_of(made)):
                return _measured(made, units)
        return _usual_rates().get(f"{name}/{wanted.get('retriever')}", _usual_rates().get(name, _usual(name, {})))

    def _units_of(self, made: Manifest) -> float:
        """Returns the units that a dataset was made from; 0 where its inputs are gone or were taken over."""
        if made.shards_taken or made.shards_resumed:
            return 0
        sizes: dict[str, Size] = {}
        for name, item in made.inputs.items():
            if isinstance(item, Ref):
                found = self._store.find(item.stage, item.key)
                sizes[name] = _size_of(found.manifest) if found else Size(0, 0)
            else:
                sizes[name] = Size(item.size, 0)
        return _units(made.stage, sizes, made.counts.read)


def _measured(made: Manifest, units: float) -> Rate:
    used = made.usage
    assert used
    size = _size_of(made)
    return Rate(
        used.cpu_seconds / units,
        used.cpu_seconds / max(made.seconds, 0.01),
        len(used.peak_bytes) > 1,
        size.bytes / units,
        size.rows / units,
        used.written_bytes / units,
        (used.peak_bytes[0], max(used.peak_bytes[1:], default=0)),
        f"measured {made.started:%Y-%m-%d}",
    )


def _units(stage: str, inputs: Mapping[str, Size], topics: float) -> float:
    """Returns the units of a stage's input: bytes, or for a run topics times documents."""
    if stage == "run":
        return topics * inputs["documents"].rows
    return sum(size.bytes for size in inputs.values())


def _size_of(manifest: Manifest) -> Size:
    return Size(sum(file.size for file in manifest.files), manifest.counts.kept)


@cache
def _usual_rates() -> Mapping[str, Rate]:
    found = tomllib.loads(Path(__file__).with_name("rates.toml").read_text(encoding="utf-8"))
    return {name: _usual(name, entry) for name, entry in found.items()}


def _usual(name: str, entry: Mapping[str, Any]) -> Rate:
    """Returns the rate of an entry of `rates.toml`; without one, a stage's input decides nothing but its place."""
    known = bool(entry) and name not in UNKNOWN
    numbers = [float(entry.get(key, 0)) for key in ("cpu", "threads", "kept", "rows", "written")]
    cpu, threads, kept, rows, written = numbers
    peak = (float(entry.get("peak", 0)) * 2**20, float(entry.get("worker_peak", 0)) * 2**20)
    return Rate(cpu, threads, peak[1] > 0, kept, rows, written, peak, "usual" if known else "unknown")


def _free_memory() -> int:
    """Returns the bytes of memory that processes can still take."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
