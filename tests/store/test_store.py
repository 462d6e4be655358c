"""Datasets are built once, resumed at the shard, published whole, verified, and survive bad roots."""

import multiprocessing
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.errors import BadInput, StageFailed, StoreError
from schemas.manifest import Manifest
from schemas.settings import Resources, Settings
from tasks.store.shard import Shard
from tasks.store.stage import Stage, stage
from tasks.store.store import Request, Store
from tasks.store.whole_files import write_record
from tasks.store.workspace import Progress, Workspace
from tests.store.conftest import Squares, request_for, squares, write_square


def build_in_process(root: Path, answers: "multiprocessing.Queue[bool]") -> None:
    answers.put(Store(root).build(request_for(shards=40)).executed)


def test_second_build_executes_nothing(store: Store) -> None:
    first, second = store.build(request_for()), store.build(request_for())
    assert (first.executed, second.executed) == (True, False)
    assert first.ref == second.ref
    assert store.open(first.ref).table()["corpus_id"].to_pylist() == [0, 1, 4]


def test_key_depends_on_settings_version_and_input_digests(store: Store) -> None:
    one, other = store.build(request_for()).ref, store.build(request_for(flavour="sour")).ref
    assert one.key != other.key
    assert one.digest == other.digest
    raised: Stage[Squares] = stage("topics", version=2, settings=Squares)(squares.function)
    assert Request(raised, Squares(), {}).key != one.key
    # Keys hang on digests: two inputs with equal bytes give the same key downstream.
    assert Request(squares, Squares(), {"x": one}).key == Request(squares, Squares(), {"x": other}).key


def test_forced_build_executes_and_keeps_equal_bytes(store: Store) -> None:
    first = store.build(request_for())
    manifest = store.open(first.ref).path("manifest.json")
    before = manifest.stat().st_mtime_ns
    again = store.build(request_for(), force=True)
    assert again.executed
    assert again.ref == first.ref
    assert manifest.stat().st_mtime_ns == before


def test_a_forced_build_executes_although_the_manifest_is_dated_ahead(store: Store) -> None:
    ref = store.build(request_for()).ref
    manifest = store.open(ref).manifest
    ahead = manifest.model_copy(update={"started": manifest.started + timedelta(days=400)})
    write_record(store.folder(ref) / "manifest.json", ahead)
    assert store.build(request_for(), force=True) == (ref, True)


def test_failed_shard_keeps_the_finished_ones(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    broken = {"yes": True}

    def flaky(work: Workspace[Settings]) -> None:
        for shard in work.pending(["00000", "00001", "00002"]):
            with shard:
                if shard.name == "00002" and broken["yes"]:
                    raise ZeroDivisionError("injected")
                seen.append(shard.name)
                write_square(shard, int(shard.name))

    request = Request(stage("topics", version=9, settings=Settings)(flaky), Settings(), {})
    with pytest.raises(StageFailed, match=r"stage topics: ZeroDivisionError: injected"):
        store.build(request)
    assert store.published("topics") == ()
    broken["yes"] = False
    built = store.build(request)
    assert seen == ["00000", "00001", "00002"]
    manifest = store.open(built.ref).manifest
    assert manifest.shards_resumed == 2
    assert manifest.counts.kept == 3


def test_a_shard_publishes_all_its_files_or_none(tmp_path: Path) -> None:
    shard = Shard(tmp_path, "00000")
    with pytest.raises(KeyError), shard:
        shard.file("part-00000.parquet").write_text("half")
        raise KeyError
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_damage_is_seen_and_repaired(store: Store) -> None:
    ref = store.build(request_for()).ref
    path = store.open(ref).files()[1]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert not store.open(ref).problems()
    assert [p.path for p in store.open(ref).problems(check_hashes=True)] == [path]
    path.write_bytes(content[:-1])
    with pytest.raises(StoreError, match="missing or damaged"):
        store.open(ref)
    assert store.build(request_for()) == (ref, True)
    assert path.read_bytes() == content
    shutil.rmtree(store.folder(ref))
    assert store.build(request_for()) == (ref, True)


def test_two_builds_at_once_execute_each_stage_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    processes = [context.Process(target=build_in_process, args=(tmp_path / "root", answers)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert sorted(answers.get(timeout=5) for _ in processes) == [False, False, False, True]


def test_worker_processes_give_the_same_bytes_and_report_progress(tmp_path: Path) -> None:
    def spread(work: Workspace[Squares]) -> None:
        work.map_shards(write_square, {f"{n:05d}": n for n in range(work.settings.shards)})

    parallel: Stage[Squares] = stage("topics", version=1, settings=Squares)(spread)
    reports: list[Progress] = []
    one = Store(tmp_path / "one").build(request_for(shards=6)).ref
    request = Request(parallel, Squares(shards=6), {})
    many = Store(tmp_path / "many").build(request, Resources(workers=2), report=reports.append).ref
    assert one == many
    assert max(report.done for report in reports) == 6


def test_root_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("99\n")
    with pytest.raises(StoreError, match=r"format is '99'.*update research-arena"):
        Store(tmp_path)


def test_unwritable_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another --root"):
        Store(tmp_path / "file" / "root")


def test_rows_that_do_not_conform_are_refused(store: Store) -> None:
    def wrong(work: Workspace[Settings]) -> None:
        import pyarrow as pa

        from schemas.tables.qrels import QRELS
        from tasks.store.parquet import write_table

        for shard in work.pending(["00000"]):
            with shard:
                write_table(shard.file("part-00000.parquet"), QRELS, pa.table({"topic_id": [1]}))

    with pytest.raises(BadInput, match="table qrels: columns"):
        store.build(Request(stage("topics", version=3, settings=Settings)(wrong), Settings(), {}))


def test_a_shard_whose_inputs_are_the_same_is_taken_over_unread(store: Store, tmp_path: Path) -> None:
    """Of three input files, each read by a shard of its own, one changes."""
    executed: list[str] = []

    def numbers(work: Workspace[Squares]) -> None:
        for shard in work.pending([f"{n:05d}" for n in range(3)]):
            with shard:
                shard.file(f"{shard.name}.txt").write_text(str(work.settings.flavour == f"other {shard.name}"))

    def again(work: Workspace[Squares]) -> None:
        reads = {f"{n:05d}": [work.dataset("numbers").path(f"{n:05d}.txt")] for n in range(3)}
        for shard in work.pending([*reads, "all"], reads):
            with shard:
                executed.append(shard.name)
                shard.counts.kept = 1
                content = "".join(path.read_text() for path in reads.get(shard.name, []))
                shard.file(f"{shard.name}.txt").write_text(content)

    def build(where: Store, flavour: str, version: int = 1, force: bool = False) -> Manifest:
        made = where.build(Request(stage("papers", version=1, settings=Squares)(numbers), Squares(flavour=flavour), {}))
        executed.clear()
        request = Request(stage("topics", version=version, settings=Squares)(again), Squares(), {"numbers": made.ref})
        return where.open(where.build(request, force=force).ref).manifest

    first = build(store, "plain")
    assert executed == ["00000", "00001", "00002", "all"]
    second = build(store, "other 00001")
    assert executed == ["00001", "all"]
    assert (second.shards_taken, second.counts.kept) == (2, 4)
    linked = [(store.folder(ref) / "00002.txt").stat().st_ino for ref in (first.ref, second.ref)]
    assert linked[0] == linked[1]
    assert build(Store(tmp_path / "fresh"), "other 00001").digest == second.digest
    assert (store.folder(second.ref) / "00001.txt").read_text() == "True"
    for changed in ({"force": True}, {"version": 2}):
        build(store, "other 00001", **changed)
        assert len(executed) == 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no right to mount a small disk here: {done.stderr.strip()}")
    yield folder  # pyright: ignore[reportReturnType]
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_loses_nothing_and_goes_on_later(small_disk: Path) -> None:
    store = Store(small_disk / "root")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 900_000)
    with pytest.raises(StoreError, match=r"no space left.*finished shards are kept"):
        store.build(request_for(shards=60))
    assert store.published("topics") == ()
    ballast.unlink()
    built = store.build(request_for(shards=60))
    assert store.open(built.ref).manifest.counts.kept == 60
