"""`arena demo`: runs the whole pipeline on a synthetic release, with Prefect flows."""

import atexit
import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from flows.commands.options import NUMBER
from flows.commands.terminal import show_json, show_note, show_rows, show_scores, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.pace import show_seconds
from flows.pipeline.walk import Slots
from flows.server.environment import replaced_variables
from flows.server.local_server import prefect_api
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, OrganizationSettings, RunSettings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.demo.standin.server import NAME, StandIn, StandInSettings
from tasks.store.store import Store

ENCODER = EncoderSettings(model="all-MiniLM-L6-v2")
"""A small encoder that works offline. It is not the one of real editions, so the runs' names contain it."""

CORPUS = CorpusSettings(buckets=4, survey_selector="model", mindmaps="figures")

SYSTEMS = RunSettings(baselines=("title", "feedback", "zero_shot", "decomposer", "self_rag", "storm"))
"""The paper's systems and our own; the stand-in answers their model calls."""

BUILDERS = OrganizationSettings(
    builders=("clustering", "clustering_collapse", "themes", "few_shot", "storm", "single"),
    runs=("feedback.hybrid.abstract+minilm", "storm.hybrid.abstract+minilm+stand-in"),
    encoder=ENCODER.model,
    entities="rules",
)


Papers = Annotated[int, NUMBER, Parameter(validator=Number(gte=150))]
"""Enough papers for surveys with figures: the first surveys of a synthetic release are papers 132 to 143."""


def demo(*, folder: Path = Path("demo"), papers: Papers = 500, json: bool = False) -> None:
    """Build, index, run and report on a small synthetic release, with Prefect flows.

    Uses the Prefect server at PREFECT_API_URL, or starts one that stops with the demo. A stand-in on this machine
    answers all language model calls by rule; runs that use it carry `stand-in` in their names.

    Args:
        folder: Folder for the release, the store and the server's files.
        papers: Number of papers in the release, from 150 upwards.
        json: Print the counts and the scores as JSON.
    """
    atexit.register(_end_silently)
    clock = time.monotonic()
    settings = SyntheticSettings(papers=papers, figures=0.8)
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    with announced(f"write an invented release of {papers:,} papers"):
        write_release(machine.releases, settings)
    with ExitStack() as running:
        with announced("start a Prefect server and the stand-in for a language model"):
            running.enter_context(prefect_api(folder / "prefect"))
            running.enter_context(stand_in(folder / "stand-in.jsonl"))
        ready = time.monotonic()
        built = run_flows(settings.release, machine)
        seconds = {"release and server": ready - clock, "flows": time.monotonic() - ready}
    _show(Store(machine.root), built, seconds, json)


def _end_silently() -> None:
    """Hides DuckDB's complaint at the end of Python that threads of Prefect still hold its objects."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@contextmanager
def stand_in(log: Path) -> Generator[None]:
    """Runs a stand-in for a language model, and points ARENA_LLM_* at it until the context ends."""
    with StandIn(StandInSettings(log=log)) as server:
        names = {"BASE_URL": server.url, "PROVIDER": NAME, "MODEL": NAME, "API_KEY": "none"}
        mine = {f"ARENA_LLM_{name}": value for name, value in names.items()}
        with replaced_variables(mine, lambda name: name.startswith("ARENA_LLM_")):
            yield


def run_flows(release: str, machine: Machine) -> Slots:
    """Runs the flows one after another in this process, and returns all slots that they built."""
    from flows.jobs.build_corpus import build_corpus
    from flows.jobs.build_index import build_index
    from flows.jobs.organization import organization
    from flows.jobs.ranking import discovery, selection

    steps: dict[str, Callable[[], Slots]] = {
        "build documents, topics and relevance judgments": lambda: build_corpus(
            release, settings=CORPUS, machine=machine
        ),
        "build indexes": lambda: build_index(release, IndexSettings(encoder=ENCODER), machine=machine),
        "discovery: run systems on the topics": lambda: discovery(release, SYSTEMS, machine=machine),
        "selection: score the same runs by their order": lambda: selection(release, SYSTEMS, machine=machine),
        "organization: build mind-maps": lambda: organization(release, BUILDERS, machine=machine),
    }
    built: Slots = {}
    for what, run in steps.items():
        with announced(what):
            built |= run()
    return built


@contextmanager
def announced(what: str) -> Generator[None]:
    """Says on standard error what a step does, and afterwards how long it took."""
    begin = time.monotonic()
    show_note(f"demo: {what} ...")
    yield
    show_note(f"demo: {what}: {show_seconds(time.monotonic() - begin)}")


def _show(store: Store, built: Slots, seconds: dict[str, float], json: bool) -> None:
    report = store.folder(built["report"]) / "report.html"
    counts = tables.count_rows(store, built)
    discovery, selection = (tables.score_rows(store, built, task) for task in ("discovery", "selection"))
    trees = tables.tree_rows(store, built)
    if json:
        scores = {"discovery": discovery, "selection": selection, "organization": trees}
        show_json({"counts": counts, **scores, "report": str(report)})
        return
    show_rows(counts, "What each stage read, kept and dropped", decimals=1)
    show_scores(discovery, "discovery", "graded labels")
    show_scores(selection, "selection", "graded labels")
    show_rows(tables.people_tree_rows(trees), "organization: mean over topics with a mind-map")
    show_text("The papers are synthetic, and a stand-in answered the model calls of runs with stand-in in their name:")
    show_text("these scores show that the pipeline works, and say nothing about the systems.")
    show_text("; ".join(f"{name}: {value:.0f} s" for name, value in seconds.items()))
    show_text(f"report: {report}")
