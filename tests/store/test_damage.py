"""A flipped bit anywhere in a store is detected with one line that says what to do, or changes no digest."""

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from schemas.errors import ArenaError, StageFailed, StoreError
from schemas.manifest import STORE_FORMAT, Ref
from tasks.store import hashes
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.parquet import ParquetReader, read_table
from tasks.store.recipes import PlannedStage, Recipes
from tasks.store.scrub import scrub
from tasks.store.stage import stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.store.conftest import Squares, request_for, write_square


def flip(path: Path, bit: int) -> None:
    """Flips one bit in the file itself, as a disk does: its inode stays."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def rot(path: Path, bit: int) -> None:
    """Flips a bit behind the store's back: size and times of the file stay, apart from what nobody can set."""
    before = path.stat()
    flip(path, bit)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _total(work: Workspace[Squares]) -> None:
    for shard in work.pending(["00000"]):
        with shard:
            relation = work.dataset("topics").relation(duckdb.connect())
            write_square(shard, relation.sum("corpus_id").fetchall()[0][0])


total = stage("scores", version=1, settings=Squares)(_total)


def derive(store: Store, source: Ref, *, force: bool = False) -> Ref:
    return store.build(Request(total, Squares(), {"topics": source}), force=force).ref


@pytest.fixture
def pair(store: Store) -> tuple[Ref, Ref]:
    """A dataset and what was made from it, both in an edition."""
    source = store.build(request_for()).ref
    derived = derive(store, source)
    Editions(store).record("week", "r1", {"topics": source, "scores/a": derived})
    return source, derived


def test_a_stage_does_not_read_a_damaged_input_and_names_the_remedy(store: Store, pair: tuple[Ref, Ref]) -> None:
    path = store.open(pair[0]).files()[1]
    rot(path, 100)

    with pytest.raises(
        StoreError, match=rf"dataset topics/{pair[0].key} is damaged: part-00001.parquet has sha256 "
    ) as e:
        derive(store, pair[0], force=True)
    assert "run: arena rerun --damaged --edition week" in str(e.value)
    with pytest.raises(StoreError, match="is damaged"):
        store.open(pair[0]).table()


def test_a_damaged_dataset_is_not_taken_as_cached(store: Store, pair: tuple[Ref, Ref]) -> None:
    path = store.open(pair[0]).files()[1]
    content = path.read_bytes()
    rot(path, 100)

    assert store.build(request_for()) == (pair[0], True)
    assert path.read_bytes() == content
    assert store.open(pair[0]).manifest.shards_taken == 0


def test_what_was_made_of_a_damaged_input_is_made_again_once_the_input_was_mended(
    store: Store, pair: tuple[Ref, Ref]
) -> None:
    rot(store.open(pair[0]).files()[1], 100)
    store.build(request_for())

    assert [problem.path for problem in Editions(store).problems("week")] == [store.folder(pair[1])]
    request = Request(total, Squares(), {"topics": pair[0]})
    assert store.build(request) == (pair[1], True)
    assert store.build(request) == (pair[1], False)
    assert Editions(store).problems("week", check_hashes=True) == []


def test_a_file_is_hashed_once_and_again_when_it_was_touched(
    store: Store, pair: tuple[Ref, Ref], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = store.open(pair[0]).files()
    _age(store, pair[0])
    hashed: list[Path] = []

    monkeypatch.setattr(
        hashes, "sha256_file", lambda path, known=hashes.sha256_file: hashed.append(path) or known(path)
    )
    store.open(pair[0]).require_whole()
    store.open(pair[0]).require_whole()
    assert hashed == []
    files[2].touch()
    store.open(pair[0]).require_whole()
    assert hashed == [files[2]]


def _age(store: Store, ref: Ref) -> None:
    """Waits until a change of the dataset's files would show in their times, and has them hashed."""
    time.sleep(0.06)
    store.open(ref).require_whole()


def test_a_read_after_the_hash_verifies_the_checksums_of_pages(store: Store, pair: tuple[Ref, Ref]) -> None:
    path = store.open(pair[0]).files()[1]
    flip(path, 8 * 40)
    for read in (
        read_table,
        lambda path: ParquetReader(path).read(),
        lambda path: list(ParquetReader(path).iter_batches()),
    ):
        with pytest.raises(StoreError, match=r"part-00001.parquet: cannot be read \(.*arena rerun --damaged"):
            read(path)


def test_a_shard_of_a_damaged_dataset_is_not_taken_over(store: Store) -> None:
    def copy(work: Workspace[Squares]) -> None:
        reads = {path.stem: [path] for path in work.dataset("topics").files()}
        for shard in work.pending(list(reads), reads):
            with shard:
                shutil.copyfile(reads[shard.name][0], shard.file(f"{shard.name}.parquet"))

    copied = stage("scores", version=1, settings=Squares)(copy)
    source = store.build(request_for()).ref
    first = store.build(Request(copied, Squares(), {"topics": source})).ref
    rot(store.open(first).files()[1], 100)

    second = store.build(Request(copied, Squares(flavour="plain", shards=4), {"topics": source})).ref
    again = store.build(Request(copied, Squares(), {"topics": source})).ref
    assert (second.digest, again) == (first.digest, first)
    assert store.open(again).manifest.shards_taken == 2


def test_an_interrupted_build_does_not_keep_a_shard_that_was_damaged_since(store: Store) -> None:
    undisturbed = store.build(request_for()).ref
    shutil.rmtree(store.folder(undisturbed))
    with pytest.raises(StageFailed):
        store.build(request_for(fail_at=2))
    (staging,) = (store.root / ".staging" / "topics").iterdir()
    flip(staging / "part-00000.parquet", 100)
    flip(staging / ".shards" / "00001.json", 100)
    key = request_for().key
    staging.rename(staging.with_name(key))

    built = store.build(request_for()).ref
    assert built == undisturbed
    assert store.open(built).manifest.shards_resumed == 0
    store.open(built).require_whole()


def test_scrubbing_finds_what_no_time_shows(
    store: Store, pair: tuple[Ref, Ref], monkeypatch: pytest.MonkeyPatch
) -> None:
    _age(store, pair[0])
    path = store.open(pair[0]).files()[0]
    seen = path.stat()
    flip(path, 100)
    real = Path.stat
    with monkeypatch.context() as blind:  # the disk lost the bit: nobody wrote the file
        blind.setattr(Path, "stat", lambda self, **options: seen if self == path else real(self, **options))
        assert store.open(pair[0]).whole
        assert list(scrub(store, timedelta(days=28))) == []
        (found,) = scrub(store, timedelta(0))
        assert "part-00000.parquet has sha256" in found and "arena rerun --damaged --edition week" in found
        assert not store.open(pair[0]).whole


def test_a_store_of_the_older_format_opens(store: Store, pair: tuple[Ref, Ref]) -> None:
    """Its records have no seals, its manifests no `file_format`, its files no checksums and no record of hashes."""
    shutil.rmtree(store.root / ".verified")
    (store.root / "format").write_text("1\n")
    new = ("seal", "file_format", "mended", "inputs_mended")
    for path in [*store.root.glob("*/*/manifest.json"), *store.root.glob("editions/*.json")]:
        old = {name: value for name, value in json.loads(path.read_text()).items() if name not in new}
        path.write_text(json.dumps(old | {"format": 1}))

    opened = Store(store.root)
    assert Editions(opened).problems("week", check_hashes=True) == []
    assert opened.open(pair[1]).table()["topic_id"].to_pylist() == [5]
    assert opened.open(pair[0]).manifest.file_format == 1
    assert (store.root / "format").read_text() == "2\n"


def _stored(store: Store) -> Iterator[Path]:
    """Every file of the store that holds something."""
    for path in sorted(store.root.rglob("*")):
        if path.is_file() and path.stat().st_size:
            yield path


def test_a_flipped_bit_in_any_kind_of_file_is_detected_or_harmless(
    store: Store, pair: tuple[Ref, Ref], tmp_path: Path
) -> None:
    """Each trial: a copy of the store, one bit, and what a user does: builds, verifies, reads."""
    slots = {
        "topics": PlannedStage(stage=pair[0].stage, parameters={}, inputs={}),
        "scores/a": PlannedStage(stage=pair[1].stage, parameters={}, inputs={"topics": "topics"}),
    }
    Recipes(store).plan("week", "r1", slots)
    rng = random.Random(20)
    detected = harmless = 0
    for number, path in enumerate([path for path in _stored(store) for _ in range(2)]):
        root = shutil.copytree(store.root, tmp_path / str(number), symlinks=True)
        damaged = root / path.relative_to(store.root)
        flip(damaged, rng.randrange(8 * damaged.stat().st_size))
        try:
            copy = Store(root)
            edition = Editions(copy).load("week")
            assert Recipes(copy).load(edition) == slots
            problems = Editions(copy).problems("week", check_hashes=True)
            assert edition.slots == dict(zip(("scores/a", "topics"), reversed(pair), strict=True))
            if not problems:
                assert [Dataset(copy.folder(ref)).ref for ref in pair] == list(pair)
                assert copy.open(pair[1]).table()["topic_id"].to_pylist() == [5]
            detected, harmless = detected + bool(problems), harmless + (not problems)
            assert (copy.build(request_for()).ref, derive(copy, pair[0])) == pair
            assert Editions(copy).problems("week", check_hashes=True) == []
        except ArenaError as error:
            detected += 1
            assert "\n" not in str(error) and str(root) in str(error) and "; " in str(error), error
        shutil.rmtree(root)
    assert min(detected, harmless) >= 6


def test_a_damaged_format_file_can_be_deleted_as_the_message_says(store: Store, pair: tuple[Ref, Ref]) -> None:
    path = store.root / "format"
    path.write_bytes(b":\n")
    with pytest.raises(StoreError, match=r"its format is ':'.* the file .*/format was damaged: delete it"):
        Store(store.root)
    path.unlink()
    assert Store(store.root).open(pair[1]).ref == pair[1]
    assert path.read_text() == f"{STORE_FORMAT}\n"
