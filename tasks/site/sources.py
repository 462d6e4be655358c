"""The datasets of an edition in the form that tables are made from: one source for each benchmark."""

from collections.abc import Mapping

from tasks.reports.source import ReportSource
from tasks.store.dataset import Dataset

TABLES = ("topics", "statistics", "mindmaps", "documents", "papers")
SCORED = {"run": "scores", "trees": "tree_scores"}
SEARCH = {"results": "results", "judgments": "judgments", "scores": "search_scores"}


def ranking_source(slots: Mapping[str, Dataset]) -> ReportSource:
    """Returns the topics, and the runs and trees that are scored."""
    found = {name: slots[name] for name in TABLES if name in slots}
    for kind, scores in SCORED.items():
        for tag in _tags(slots, scores):
            made = slots.get(f"{kind}/{tag}") or slots.get(f"{kind}/{_unmarked(tag, slots)}")
            if made:
                found |= {f"{scores}:{tag}": slots[f"{scores}/{tag}"], f"{kind}:{_unmarked(tag, slots)}": made}
    return ReportSource(found, timed=True)


def _unmarked(tag: str, slots: Mapping[str, Dataset]) -> str:
    """Returns the name of the trees that scores with a mark, as of another distance, are of."""
    names = (slot.partition("/")[2] for slot in slots if slot.startswith("trees/"))
    return tag if f"run/{tag}" in slots else max((n for n in names if tag.startswith(n)), key=len, default=tag)


def search_sources(slots: Mapping[str, Dataset]) -> dict[str, ReportSource]:
    """Returns the judged search engines by the name of their test sets."""
    found: dict[str, dict[str, Dataset]] = {}
    for slot, dataset in slots.items():
        if slot.startswith("search/"):
            _, name, kind, *tag = slot.split("/", 3)
            if tag and kind in SEARCH:
                found.setdefault(name, {})[f"{SEARCH[kind]}:{tag[0]}"] = dataset
            elif kind in ("queries", "agreement"):
                found.setdefault(name, {})[kind] = dataset
    scored = {name: parts for name, parts in found.items() if any(part.startswith("search_scores:") for part in parts)}
    return {name: ReportSource(parts, timed=True) for name, parts in sorted(scored.items())}


def paperqa_source(slots: Mapping[str, Dataset]) -> ReportSource | None:
    """Returns the questions over papers with their scored runs; None where there are none."""
    tags = [tag for tag in _tags(slots, "airqa/scores") if f"airqa/run/{tag}" in slots]
    if not tags:
        return None
    found = {name: slots[f"airqa/{name}"] for name in ("questions", "papers") if f"airqa/{name}" in slots}
    for tag in tags:
        found |= {
            f"paperqa_run:{tag}": slots[f"airqa/run/{tag}"],
            f"paperqa_scores:{tag}": slots[f"airqa/scores/{tag}"],
        }
    return ReportSource(found, timed=True)


def _tags(slots: Mapping[str, Dataset], prefix: str) -> list[str]:
    return sorted(slot.removeprefix(f"{prefix}/") for slot in slots if slot.startswith(f"{prefix}/"))
