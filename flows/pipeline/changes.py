"""Table rows about the changes between two editions, and about topics with recent surveys."""

from datetime import date
from typing import NamedTuple

from flows.pipeline.summaries import Row
from schemas.manifest import Ref
from tasks.reports.edition_changes import ScoreChange, compare_scores, compare_topics, fresh_topics, score_slice
from tasks.stats.summaries import Summary
from tasks.store.editions import Editions
from tasks.store.store import Store


class Changes(NamedTuple):
    """Rows about the datasets, the changed topics, and the scores on the unchanged topics."""

    datasets: list[Row]
    topics: list[Row]
    scores: list[Row]


def change_rows(store: Store, old: str, new: str) -> Changes:
    """Returns what changed from edition `old` to edition `new`."""
    before, after = (Editions(store).load(name).slots for name in (old, new))
    topics = compare_topics(store.open(before["topics"]), store.open(after["topics"]))
    scores: list[Row] = [
        {"run": slot.removeprefix("scores/"), **_score_row(found)}
        for slot in after
        if slot.startswith("scores/") and slot in before
        for found in compare_scores(store.open(before[slot]), store.open(after[slot]), topics)
    ]
    datasets: list[Row] = [
        {"slot": slot, "content": _compare(before.get(slot), after.get(slot))} for slot in sorted({*before, *after})
    ]
    return Changes(datasets, [dict(change._asdict()) for change in topics], scores)


def fresh_rows(store: Store, edition: str, after: date) -> list[Row]:
    """Returns scores on topics whose survey was published after a day, next to scores on the other topics."""
    slots = Editions(store).load(edition).slots
    topics = store.open(slots["topics"])
    young = fresh_topics(topics, after)
    older = fresh_topics(topics, date.min) - young
    rows: list[Row] = []
    for slot in slots:
        if slot.startswith("scores/"):
            fresh, others = (score_slice(store.open(slots[slot]), part) for part in (young, older))
            rows += [
                {"run": slot.removeprefix("scores/"), "measure": measure}
                | _slice_row("fresh", fresh[measure])
                | _slice_row("older", others[measure])
                for measure in fresh
            ]
    return rows


def _score_row(found: ScoreChange) -> Row:
    return found._asdict() | {"new": found.new.valued} | _slice_row("new", found.new)


def _slice_row(label: str, part: Summary) -> Row:
    return {label: part.valued, f"{label}_mean": part.mean, f"{label}_low": part.low, f"{label}_high": part.high}


def _compare(old: Ref | None, new: Ref | None) -> str:
    if old is None or new is None:
        return "only in the later" if new else "only in the earlier"
    return "same" if old.digest == new.digest else "other"
