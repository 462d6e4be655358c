"""Foreign systems in processes of their own: what they can reach, how they end, and that rankings stay the same."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from schemas.errors import MissingDependency, UsageError
from schemas.manifest import Ref
from schemas.settings import OwnSettings, Resources
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.ranking import baseline as systems
from tasks.ranking.isolated.child import _RemoteDesk
from tasks.ranking.isolated.fence import is_enforceable
from tasks.ranking.isolated.system import _CALLS, IsolatedSystem, describe_package, place_system, require_apart
from tasks.ranking.runs import SystemSettings, run
from tasks.retrieval.desk import ResearchDesk
from tasks.store.dataset import Dataset
from tasks.store.store import Request, Store
from tests.published import publish_documents, publish_surveys, publish_topics, topic_row

REPOSITORY = Path(__file__).parents[3]
BIRDS, SURVEY, LATE, FISH = 101, 102, 103, 104
TEXTS = {BIRDS: "Birds fly", SURVEY: "Birds: a survey", LATE: "Birds of tomorrow", FISH: "Fish eat birds"}

PACKAGE = """
import os
import time
from arena import Demand, Hit, Kit, Parameters, Ranking, Topic, WeightedTerms, baseline

SECRET_OPENED = []
for path in {paths!r}:
    try:
        SECRET_OPENED.append(open(path, "rb").read())
    except OSError:
        pass
    try:
        SECRET_OPENED += os.listdir(path)
    except OSError:
        pass


@baseline("honest", "Searches as title does.", version=3)
def honest(topic: Topic, kit: Kit) -> Ranking:
    desk = kit.desk
    assert desk.primary == "bm25" and desk.has_terms and not desk.has_vectors
    weights = {{term: 1.0 for term in desk.terms(topic.title.lower().strip())}}
    assert all(desk.document_frequency(term) <= desk.n_documents for term in weights)
    hits = desk.search(WeightedTerms(weights), kit.cutoff)
    assert [document.corpus_id for document in desk.read([hit.corpus_id for hit in hits])]
    return Ranking(hits)


@baseline("thief", "Says all that it gets hold of.")
def thief(topic: Topic, kit: Kit) -> Ranking:
    found = [*SECRET_OPENED]
    for take in (
        lambda: kit.desk._engines["bm25"].search("birds", 10, None),
        lambda: kit.desk._allowed.catalogue,
        lambda: kit.desk._documents,
        lambda: kit.desk._parent.call("qrels"),
        lambda: kit.desk._parent.call("__class__"),
        lambda: kit.desk.read([{late}]),
        lambda: kit.desk.search("birds", 10, "../x"),
        lambda: os.kill(os.getppid(), 0),
        lambda: open(f"/proc/{{os.getppid()}}/environ", "rb").read(),
        lambda: __import__("socket").create_connection(("127.0.0.1", {port}), 1),
        lambda: open("/etc/passwd").read(),
        lambda: [os.environ[name] for name in os.environ if name.startswith(("ARENA", "OPENAI"))][0],
    ):
        try:
            found.append(repr(take()))
        except BaseException:
            pass
    return Ranking([], "failed", note=f"got: {{found}}")


@baseline("forger", "Returns documents that it may not see.")
def forger(topic: Topic, kit: Kit) -> Ranking:
    return Ranking([Hit({late}, 1.0), Hit({birds}, 0.5)])


@baseline("slow", "Sleeps through the second topic.")
def slow(topic: Topic, kit: Kit) -> Ranking:
    if topic.topic_id == 2:
        time.sleep(600)
    return Ranking(kit.desk.search(topic.title, kit.cutoff))


@baseline("dying", "Ends its process at the second topic.")
def dying(topic: Topic, kit: Kit) -> Ranking:
    if topic.topic_id == 2:
        os._exit(7)
    return Ranking(kit.desk.search(topic.title, kit.cutoff))


@baseline("told", "Says its parameters.")
def told(topic: Topic, kit: Kit) -> Ranking:
    open("note.txt", "w").write("a file of its own")
    return Ranking([], "failed", note=f"{{dict(kit.parameters)}} {{os.path.basename(os.getcwd())[:12]}}")


@baseline("asking", "Asks a model.", asks=Demand(1, 10, 10))
def asking(topic: Topic, kit: Kit) -> Ranking:
    return Ranking([])
"""


class World(NamedTuple):
    """A store with two topics, and a package of systems that knows where the store is."""

    store: Store
    inputs: dict[str, Ref]
    package: dict[str, systems.Baseline]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("isolated")
    store = Store(folder / "root")
    documents = publish_documents(store, {i: (text, text) for i, text in TEXTS.items()}, late={LATE})
    settings = Bm25Settings(field="title_abstract")
    index = store.build(Request(bm25, settings, {"documents": documents}), Resources(workers=1))
    topics = [topic_row(1, "Birds "), topic_row(2, "birds")]
    inputs = {
        "topics": publish_topics(store, topics, {1: {BIRDS: 2}, 2: {FISH: 1}}),
        "documents": documents,
        "surveys": publish_surveys(store, [SURVEY]),
        "bm25": index.ref,
    }
    qrels = next((store.root / "topics").glob("*/qrels-*.parquet"))
    paths = [str(path) for path in (qrels, store.root, store.root / "editions", qrels.parent / "manifest.json")]
    package = folder / "installed" / "hostile_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(paths=paths, late=LATE, birds=BIRDS, port=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(package.parent))
        patch.setenv("ARENA_ROOT", str(store.root))
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        found = describe_package("hostile_package")
        assert "hostile_package" not in sys.modules
        for name, registered in found.items():
            patch.setitem(systems._registry._things, name, registered)
        yield World(store, inputs, found)


def build(world: World, name: str, own: OwnSettings | None = None, **resources: str) -> Dataset:
    settings = SystemSettings(
        baseline=name,
        baseline_version=systems.find_baseline(name).version,
        retriever="bm25",
        field="title_abstract",
        tag=f"{name}.bm25.title_abstract",
        own=own,
    )
    chosen = Resources.model_validate({"workers": 1, **resources})
    return world.store.open(world.store.build(Request(run, settings, world.inputs), chosen, force=True).ref)


def outcomes(dataset: Dataset) -> list[tuple[str, str | None]]:
    return pl.read_parquet(dataset.files("outcomes")).select("outcome", "note").rows()


def test_a_package_is_described_without_being_imported_here(world: World) -> None:
    package = world.package
    assert set(package) == {"honest", "thief", "forger", "slow", "dying", "told", "asking"}
    honest, asking = package["honest"], package["asking"]
    assert (honest.description, honest.version, honest.asks) == ("Searches as title does.", 3, None)
    assert asking.asks is not None and asking.asks.read == 10


def test_a_system_has_the_same_ranking_here_and_in_a_process_of_its_own(world: World) -> None:
    def rows(dataset: Dataset) -> pl.DataFrame:
        return pl.read_parquet(dataset.files()).drop("tag")

    ours = rows(build(world, "title"))
    foreign = build(world, "honest")
    assert len(ours) > 0
    assert rows(foreign).equals(ours)
    searched = pl.read_parquet(foreign.files("searches"))
    assert searched.select("topic_id", "dropped_survey", "dropped_date").rows() == [(1, 1, 1), (2, 1, 1)]
    assert rows(build(world, "title", isolate="always")).equals(ours)
    assert isinstance(place_system("title", None, "always"), IsolatedSystem)
    assert not isinstance(place_system("title", None, "foreign"), IsolatedSystem)


@pytest.mark.skipif(not is_enforceable(), reason="this kernel has no Landlock")
def test_a_hostile_system_gets_nothing(world: World) -> None:
    assert outcomes(build(world, "thief")) == [("failed", "got: []")] * 2
    (_, here), _ = outcomes(build(world, "thief", isolate="never"))
    assert "PAR1" in str(here), "without a process of its own it gets the judgments"


def test_a_forbidden_document_fails_the_topic(world: World) -> None:
    assert [outcome for outcome, _ in outcomes(build(world, "forger"))] == ["failed"] * 2


@pytest.mark.long
def test_a_system_that_takes_too_long_fails_on_that_topic_alone(world: World) -> None:
    first, second = outcomes(build(world, "slow", OwnSettings(timeout_s=3)))
    assert first == ("scored", None)
    assert second[0] == "failed"
    assert "took more than 3 s and was stopped" in str(second[1])


def test_a_process_that_ends_fails_that_topic_alone(world: World) -> None:
    first, second = outcomes(build(world, "dying"))
    assert first == ("scored", None)
    assert second[0] == "failed"
    assert "exit code 7" in str(second[1])


def test_a_system_reads_its_own_parameters_in_a_folder_of_its_own(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = OwnSettings(parameters={"depth": 3, "words": "a"})
    found = outcomes(build(world, "told", own))
    assert found == [("failed", "{'depth': 3, 'words': 'a'} arena-system")] * 2
    ((_, here), _) = outcomes(build(world, "told", own.model_copy(update={"files": ("x",)}), isolate="never"))
    assert str(here).startswith("{'depth': 3")


def test_the_desk_of_a_foreign_process_has_all_that_the_desk_has() -> None:
    public = {name for name in vars(ResearchDesk) if not name.startswith("_")}
    assert public <= set(vars(_RemoteDesk))
    assert public <= set(_CALLS)


def test_settings_of_its_own_are_no_part_of_the_key_of_a_system_without() -> None:
    settings = SystemSettings(baseline="title", baseline_version=1, retriever="bm25", field="abstract", tag="t")
    assert "own" not in settings.model_dump(mode="json")
    assert "own" in settings.model_copy(update={"own": OwnSettings()}).model_dump(mode="json")


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import does_not_exist")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingDependency, match=r"broken_package: cannot be loaded .*does_not_exist"):
        describe_package("broken_package")


def test_a_store_among_the_libraries_is_refused() -> None:
    with pytest.raises(UsageError, match="choose another --root"):
        require_apart(Path(sys.prefix) / "arena-root")
    require_apart(REPOSITORY / "arena-root")


def test_a_killed_run_takes_the_processes_of_systems_with_it(tmp_path: Path) -> None:
    (tmp_path / "lasting.py").write_text(
        "import os, time\nfrom arena import baseline\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    code = "from tasks.ranking.isolated.system import describe_package; describe_package('lasting')"
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{tmp_path}", "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    deadline = time.monotonic() + 60

    def wait(found: Callable[[], object]) -> object:
        while not (value := found()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return value

    path = wait(lambda: next(iter(tmp_path.glob("arena-system-*/pid")), None))
    assert isinstance(path, Path)
    pid = int(str(wait(path.read_text)))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert wait(lambda: not _runs(pid)), "the system outlived the run"


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]
    except OSError:
        return False
