"""A corpus is the same bytes whatever the number of worker processes."""

from pathlib import Path

import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline, StageLabel, build_labelled
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, Resources
from tasks.demo.release import SyntheticSettings, write_release
from tasks.store import shard_runner
from tasks.store.store import Request, Store


@pytest.mark.long
def test_the_number_of_workers_changes_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = SyntheticSettings(papers=60)
    write_release(tmp_path / "releases", release)
    monkeypatch.setattr(shard_runner, "SMALL_BYTES", 1)  # everything is shared

    def build(workers: int) -> dict[str, str]:
        store = Store(tmp_path / f"{workers}")

        def execute(request: Request, label: StageLabel) -> Ref:
            return build_labelled(store, request, Resources(workers=workers), label, lambda progress: None).ref

        pipeline = Pipeline(store, "e", execute)
        files = open_files(Machine(root=store.root, releases=tmp_path / "releases"), release.release)
        built = pipeline.build_corpus(CorpusSettings(buckets=4), files)
        return {slot: ref.digest for slot, ref in built.items()}

    alone = build(1)
    assert build(2) == alone
    assert build(4) == alone
