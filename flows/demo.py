"""`arena demo`: the whole pipeline on a synthetic release, run by Prefect flows.

What belongs here: the choices of the demonstration. What does not: flows, the generator (`tasks/release/synthetic`).
"""

import time
from pathlib import Path

from flows import tables
from flows.machine import Machine
from flows.pipeline import Slots
from flows.server import prefect_api
from flows.terminal import show_json, show_rows, show_scores, show_text
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, RunSettings
from tasks.release.synthetic import SyntheticSettings, write_release
from tasks.store.store import Store

ENCODER = EncoderSettings(model="all-MiniLM-L6-v2")
"""Small enough for a laptop, and found offline; not the encoder of real editions, so the runs' names say it."""


def demo(*, folder: Path = Path("demo"), papers: int = 1_000, json: bool = False) -> None:
    """Build, index, run and report on a small synthetic release, with Prefect flows.

    Uses the Prefect server that PREFECT_API_URL names, else one of its own that ends with the demo.

    Args:
        folder: Where release, store and the server's files go.
        papers: Size of the release.
        json: Print what was built and the scores as JSON.
    """
    clock = time.monotonic()
    settings = SyntheticSettings(papers=papers)
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    write_release(machine.releases, settings)
    with prefect_api(folder / "prefect"):
        ready = time.monotonic()
        built = run_flows(settings.release, machine)
        seconds = {"release and server": ready - clock, "flows": time.monotonic() - ready}
    _show(Store(machine.root), built, seconds, json)


def run_flows(release: str, machine: Machine) -> Slots:
    """The flows one after the other, in this process; returns all that the edition has."""
    from flows.build_corpus import build_corpus
    from flows.build_index import build_index
    from flows.discovery import discovery
    from flows.selection import selection
    from flows.write_report import write_report

    return (
        build_corpus(release, settings=CorpusSettings(buckets=4), machine=machine)
        | build_index(release, IndexSettings(encoder=ENCODER), machine=machine)
        | discovery(release, RunSettings(), machine=machine)
        | selection(release, RunSettings(), machine=machine)
        | write_report(release, machine=machine)
    )


def _show(store: Store, built: Slots, seconds: dict[str, float], json: bool) -> None:
    report = store.folder(built["report"]) / "report.html"
    counts = tables.count_rows(store, built)
    discovery, selection = (tables.score_rows(store, built, task) for task in ("discovery", "selection"))
    if json:
        show_json({"counts": counts, "discovery": discovery, "selection": selection, "report": str(report)})
        return
    show_rows(counts, "What each stage did with what it read", decimals=1)
    show_scores(discovery, "discovery", "graded labels")
    show_scores(selection, "selection", "graded labels")
    show_text("The papers are invented: these figures show that the pipeline works, and nothing about the systems.")
    show_text("; ".join(f"{name}: {value:.0f} s" for name, value in seconds.items()))
    show_text(f"report: {report}")
