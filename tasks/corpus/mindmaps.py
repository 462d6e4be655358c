"""Stage `mindmaps`: selects the gold mind-map of each survey from transcribed maps."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from schemas.manifest import Counts
from schemas.mindmap import MAX_STORED_DEPTH, Tree, dump_tree, tree_labels, tree_shape
from schemas.settings import Settings
from schemas.tables.mindmaps import MINDMAPS, MindmapRow
from schemas.tables.quarantine import QUARANTINE, QuarantinedLineRow
from tasks.corpus.mindmap_files import Place, Transcript, read_transcripts
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class MindmapSettings(Settings):
    """Which maps are kept."""

    max_label: int = Field(default=200, ge=1, description="A map with a longer label, in characters, is dropped.")


class _Map(NamedTuple):
    """A valid map of a survey, and where it was read."""

    place: Place
    row: MindmapRow


@stage("mindmaps", version=1, settings=MindmapSettings, after="extracted_mindmaps")
def mindmaps(work: Workspace[MindmapSettings]) -> None:
    """Writes one row per survey with a mind-map; side table `quarantine` has the lines not used, with the reason.

    Inputs: `topics`, of which all surveys count whatever their outcome; `maps`, a file of transcribed maps
    (`mindmap_files.open_maps`). The sha256 of its content is part of the dataset's key, as for a release's files.

    A map without `corpusid` is matched to the survey with its `survey_title`, ignoring letter case and punctuation, if
    only one survey has that title. Of several maps of a survey the one with the most nodes is kept, and of equally
    large ones the first.

    Source: section 3 of the ResearchArena paper, which does not say what makes a map valid.
    """
    titles = read_titles(work)
    for shard in work.pending(["file"]):
        with shard:
            transcripts = read_transcripts(work.release("maps"))
            kept, rejected = _choose(transcripts, titles, work.settings.max_label)
            write_rows(shard.file("part-00000.parquet"), MINDMAPS, kept)
            write_rows(shard.file("quarantine-00000.parquet"), QUARANTINE, rejected)
            dropped = Counter(row.reason for row in rejected)
            shard.counts.add(Counts(read=len(kept) + len(rejected), kept=len(kept), dropped=dict(dropped)))


def read_titles(work: Workspace[Any]) -> dict[int, str]:
    """Returns the title of every survey of the input `topics` by its id."""
    surveys = work.dataset("topics").table(columns=["topic_id", "title"])
    return dict(zip(*(column.to_pylist() for column in surveys.columns), strict=True))


def map_problem(tree: Tree, max_label: int) -> str | None:
    """Returns in one word why a canonical tree is no valid mind-map, or None when it is one."""
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
) -> tuple[list[MindmapRow], list[QuarantinedLineRow]]:
    """Returns the kept maps by topic, and the rejected lines in the order of the file."""
    by_title = Counter(map(_normalize, titles.values()))
    topic_of = {_normalize(title): topic for topic, title in titles.items() if by_title[_normalize(title)] == 1}
    best: dict[int, _Map] = {}
    rejected: list[QuarantinedLineRow] = []
    for place, found in transcripts:
        problem = found if isinstance(found, str) else map_problem(found.tree, max_label)
        if problem or isinstance(found, str):
            rejected.append(_reject(place, problem or ""))
            continue
        topic = topic_of.get(_normalize(found.survey_title or "")) if found.corpus_id is None else found.corpus_id
        if topic is None or topic not in titles:
            rejected.append(_reject(place, "unknown_survey"))
            continue
        new = _Map(place, _row(topic, titles[topic], found))
        old = best.get(topic, new)
        best[topic] = new if new.row.nodes > old.row.nodes else old
        if old is not new:
            rejected.append(_reject((old if best[topic] is new else new).place, "smaller_map"))
    rejected.sort(key=lambda row: (row.file, row.line))
    return [best[topic].row for topic in sorted(best)], rejected


def _normalize(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold()))


def _reject(place: Place, reason: str) -> QuarantinedLineRow:
    return QuarantinedLineRow(**place._asdict(), reason=reason)


def _row(topic: int, title: str, found: Transcript) -> MindmapRow:
    shape = tree_shape(found.tree)
    return MindmapRow(
        topic_id=topic,
        title=title,
        tree=dump_tree(found.tree),
        nodes=shape.nodes,
        depth=shape.depth,
        source="file",
        figure=found.figure,
        caption=found.caption,
        image_sha256=None,
        model=None,
        prompt_id=None,
    )
