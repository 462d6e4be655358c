"""How an edition is made: every slot that was ever requested, with its stage, settings and inputs.

A slot whose stage failed appears only in the recipe; it is built from there once the cause is fixed.
"""

import fcntl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from schemas.errors import UsageError
from schemas.identifiers import STAGE_PATTERN, StageName
from schemas.manifest import EditionManifest, Ref
from schemas.release import ReleaseDataset
from tasks.store.stages import stage_position
from tasks.store.store import Store
from tasks.store.whole_files import read_record, write_record


class PlannedStage(BaseModel):
    """A slot to be built. Inputs by the stage's input names: other slots, files, or datasets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: StageName = Field(pattern=STAGE_PATTERN)
    parameters: dict[str, Any]
    inputs: dict[str, str | ReleaseDataset | Ref]

    def sources(self) -> set[str]:
        """Returns the slots that this one is made from."""
        return {source for source in self.inputs.values() if isinstance(source, str)}


class Recipe(BaseModel):
    """The slots of one edition as they were last requested."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str
    slots: dict[str, PlannedStage] = Field(default_factory=dict)


class Recipes:
    """The recipes of a store's editions, in `recipes/<edition>.json`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.root / "recipes"

    def plan(self, edition: str, release: str, slots: Mapping[str, PlannedStage], *, published: bool = False) -> None:
        """Records what is to be built; a published edition only gets slots that it does not have yet.

        Raises:
            UsageError: The edition belongs to another release.
        """
        with self._lock(edition):
            old = self._read(edition) or Recipe(release=release)
            if old.release != release:
                raise UsageError(
                    f"edition {edition} is of release {old.release}, not {release}; choose another --edition name"
                )
            merged = {**slots, **old.slots} if published else {**old.slots, **slots}
            if merged != old.slots:
                self._write(edition, Recipe(release=release, slots=merged))

    def load(self, edition: EditionManifest) -> dict[str, PlannedStage]:
        """Returns the planned slots of an edition, in the order in which data flows.

        A slot without a recipe (its edition was copied from another store) is planned from its dataset's
        manifest, if all its inputs are slots of the edition.
        """
        recipe = self._read(edition.name)
        planned = dict(recipe.slots) if recipe else {}
        for slot, ref in edition.slots.items():
            if slot not in planned and (found := self._from_manifest(ref, edition)):
                planned[slot] = found
        return _in_order(planned)

    def _from_manifest(self, ref: Ref, edition: EditionManifest) -> PlannedStage | None:
        dataset = self._store.find(ref.stage, ref.key)
        slots = {other: slot for slot, other in edition.slots.items()}
        if dataset is None:
            return None
        inputs = {name: slots.get(e) if isinstance(e, Ref) else None for name, e in dataset.manifest.inputs.items()}
        known: dict[str, str | Ref | ReleaseDataset] = {name: slot for name, slot in inputs.items() if slot}
        if len(known) < len(inputs):
            return None
        return PlannedStage(stage=ref.stage, parameters=dataset.manifest.parameters, inputs=known)

    def _path(self, edition: str) -> Path:
        return self._folder / f"{edition}.json"

    def _read(self, edition: str) -> Recipe | None:
        path = self._path(edition)
        if not path.is_file():
            return None
        return read_record(
            path, Recipe, "delete it: the edition is then rerun from what its datasets say of themselves"
        )

    def _write(self, edition: str, recipe: Recipe) -> None:
        write_record(self._path(edition), recipe, copied=True)

    @contextmanager
    def _lock(self, edition: str) -> Generator[None]:
        self._folder.mkdir(exist_ok=True)
        with (self._store.root / ".locks" / f"recipe-{edition}").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _in_order(planned: Mapping[str, PlannedStage]) -> dict[str, PlannedStage]:
    """Sorts slots by stage, but puts every slot behind those that it is made from."""
    by_stage = sorted(planned, key=lambda slot: stage_position(planned[slot].stage))
    ordered: dict[str, PlannedStage] = {}
    reached: set[str] = set()

    def add(slot: str) -> None:
        if slot in reached:
            return
        reached.add(slot)
        sources = planned[slot].sources()
        for source in (other for other in by_stage if other in sources):
            add(source)
        ordered[slot] = planned[slot]

    for slot in by_stage:
        add(slot)
    return ordered
