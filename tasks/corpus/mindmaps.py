"""Stage `mindmaps`: the gold mind-map of every survey that has one."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from schemas.manifest import Counts
from schemas.mindmap import MAX_STORED_DEPTH, Tree, dump_tree, tree_labels, tree_shape
from schemas.settings import Settings
from schemas.tables.mindmaps import MINDMAPS
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.mindmap_files import Place, Transcript, read_transcripts
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

Row = dict[str, Any]


class MindmapSettings(Settings):
    """Which maps are kept."""

    max_label: int = Field(default=200, ge=1, description="A map with a longer label, in characters, is dropped.")


class _Map(NamedTuple):
    """A valid map of a survey, with the number of its nodes."""

    nodes: int
    place: Place
    row: Row


@stage("mindmaps", version=1, settings=MindmapSettings, after="extracted_mindmaps")
def mindmaps(work: Workspace[MindmapSettings]) -> None:
    """One row per survey with a mind-map; side table `quarantine`: lines without a map that is kept, with the reason.

    Inputs: `topics`, whose surveys count whatever their outcome; `maps`, a file of transcribed maps
    (`mindmap_files.open_maps`), which enters the key by the sha256 of its content, like a release's files.

    A map without `corpusid` belongs to the survey of its `survey_title` (letter case and punctuation do not matter),
    if there is just one. Of several maps of a survey the one with most nodes is kept, of equal ones the first.

    Source: section 3 of the ResearchArena paper, which does not say what a valid map is.
    """
    surveys = work.dataset("topics").table(columns=["topic_id", "title"])
    titles: dict[int, str] = dict(zip(*(column.to_pylist() for column in surveys.columns), strict=True))
    for shard in work.pending(["file"]):
        with shard:
            transcripts = read_transcripts(work.release("maps"))
            kept, rejected = _choose(transcripts, titles, work.settings.max_label)
            for name, table, rows in (("part", MINDMAPS, kept), ("quarantine", QUARANTINE, rejected)):
                write_table(shard.file(f"{name}-00000.parquet"), table, pa.Table.from_pylist(rows, table.arrow))
            dropped = Counter(row["reason"] for row in rejected)
            shard.counts.add(Counts(read=len(kept) + len(rejected), kept=len(kept), dropped=dict(dropped)))


def map_problem(tree: Tree, max_label: int) -> str | None:
    """Why a canonical tree is no mind-map to evaluate on, in one word; None when it is one."""
    shape = tree_shape(tree)
    if shape.nodes < 2:
        return "too_small"
    if shape.depth < 2:
        return "too_flat"
    if shape.depth > MAX_STORED_DEPTH:
        return "too_deep"
    return "long_label" if max(map(len, tree_labels(tree))) > max_label else None


def _choose(
    transcripts: Iterable[tuple[Place, Transcript | str]], titles: Mapping[int, str], max_label: int
) -> tuple[list[Row], list[Row]]:
    """Rows of MINDMAPS by topic, and of QUARANTINE in the order of the file."""
    by_title = Counter(map(_squeeze, titles.values()))
    topic_of = {_squeeze(title): topic for topic, title in titles.items() if by_title[_squeeze(title)] == 1}
    best: dict[int, _Map] = {}
    rejected: list[Row] = []
    for place, found in transcripts:
        problem = found if isinstance(found, str) else map_problem(found.tree, max_label)
        if problem or isinstance(found, str):
            rejected.append(_rejected(place, problem or ""))
            continue
        topic = topic_of.get(_squeeze(found.survey_title or "")) if found.corpus_id is None else found.corpus_id
        if topic is None or topic not in titles:
            rejected.append(_rejected(place, "unknown_survey"))
            continue
        new = _Map(tree_shape(found.tree).nodes, place, _row(topic, titles[topic], found))
        old = best.get(topic, new)
        best[topic] = new if new.nodes > old.nodes else old
        if old is not new:
            rejected.append(_rejected((old if best[topic] is new else new).place, "smaller_map"))
    rejected.sort(key=lambda row: (row["file"], row["line"]))
    return [best[topic].row for topic in sorted(best)], rejected


def _squeeze(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold()))


def _rejected(place: Place, reason: str) -> Row:
    return {**place._asdict(), "reason": reason}


def _row(topic: int, title: str, found: Transcript) -> Row:
    shape = tree_shape(found.tree)
    return {
        "topic_id": topic,
        "title": title,
        "tree": dump_tree(found.tree),
        "nodes": shape.nodes,
        "depth": shape.depth,
        "source": "file",
        "figure": found.figure,
        "caption": found.caption,
    }
