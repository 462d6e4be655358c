"""Stage `extracted_mindmaps`: the mind-map of every survey of which a model can read one off a figure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from schemas.llm import Image, LlmAccess, ModelName
from schemas.manifest import Counts
from schemas.mindmap import dump_tree, tree_shape
from schemas.settings import Settings
from schemas.tables.figure_readings import FIGURE_READINGS
from schemas.tables.mindmaps import MINDMAPS
from tasks.corpus.figures.maps import (
    Reading,
    Rules,
    Shown,
    Survey,
    read_figures,
    tree_question,
    triage,
    triage_question,
)
from tasks.llm.asker import Asker, in_threads, open_door, write_calls
from tasks.llm.blocking import BlockingDoor
from tasks.llm.filled_prompt import FilledPrompt, ask_by_batch
from tasks.llm.images import read_image
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

FAILED = ("failed", "refused", "triage_failed")

Row = dict[str, Any]


class ExtractedMindmapSettings(Settings):
    """Who reads figures, and which maps are kept."""

    model: ModelName = Field(description="Model that reads captions and pictures; it must take pictures.")
    max_read: int = Field(default=6, ge=1, le=100, description="Figures of a survey that are read, the first chosen.")
    max_label: int = Field(default=200, ge=1, description="A map with a longer label, in characters, is dropped.")

    @property
    def rules(self) -> Rules:
        """Limits as `read_figures` takes them."""
        return Rules(self.max_read, self.max_label)


class _Reader(NamedTuple):
    """All that goes through the surveys of a shard."""

    door: BlockingDoor
    access: LlmAccess
    settings: ExtractedMindmapSettings

    def asker(self, survey: Survey) -> Asker:
        return Asker(self.door, extracted_mindmaps.name, self.settings.model, str(survey.corpus_id))

    def ask_by_batch(self, questions: Sequence[FilledPrompt[Any]]) -> None:
        ask_by_batch(
            self.door,
            self.access,
            [question.request(self.settings.model, extracted_mindmaps.name) for question in questions],
        )


@stage("extracted_mindmaps", version=1, settings=ExtractedMindmapSettings, after="figures")
def extracted_mindmaps(work: Workspace[ExtractedMindmapSettings]) -> None:
    """One row per survey with a map (MINDMAPS); side tables `figure_readings` (every figure) and `calls`.

    Inputs: `topics`, `figures`. A model chooses figures by their captions, then reads the tree off each chosen picture.
    At most one map a survey: the valid one with most nodes, of equal ones the first. A cap that is reached ends the
    stage, as in stage `surveys`; what a model got wrong is counted as failed.

    Raises:
        UsageError: No endpoint is set up, or another one than the settings name.
        OverBudget: The cap leaves too little.

    Source: section 3 of the ResearchArena paper, which names neither model nor checks.
    """
    surveys = work.dataset("topics").table(columns=["topic_id", "title"])
    titles: dict[int, str] = dict(zip(*(column.to_pylist() for column in surveys.columns), strict=True))
    files = {path.stem.removeprefix("part-"): path for path in work.dataset("figures").files()}
    if work.finished() >= set(files):
        return
    with open_door(work.llm, work.settings.model) as door:
        reader = _Reader(door, cast(LlmAccess, work.llm), work.settings)
        for shard in work.pending(list(files)):
            with shard:
                _write(shard, _surveys(files[shard.name], titles), reader)


def _surveys(path: Path, titles: Mapping[int, str]) -> list[Survey]:
    """The surveys of a file of FIGURES in order; pictures stay on disk."""
    rows = pq.read_table(path, columns=["corpus_id", "figure", "caption", "image_sha256"]).to_pylist()
    figures: dict[int, list[Shown]] = {}
    for row in rows:
        figures.setdefault(row.pop("corpus_id"), []).append(Shown(**row))
    return [Survey(i, titles[i], found, _loader(path, i)) for i, found in figures.items() if i in titles]


def _loader(path: Path, corpus_id: int) -> Callable[[str], Image]:
    def load(figure: str) -> Image:
        wanted = (pc.field("corpus_id") == corpus_id) & (pc.field("figure") == figure)
        data = pq.read_table(path, columns=["image"], filters=wanted)["image"][0].as_py()
        return read_image(data, f"{figure} of survey {corpus_id}")

    return load


def _write(shard: Shard, surveys: list[Survey], reader: _Reader) -> None:
    if reader.access.settings.batch:
        _ask_first(surveys, reader)

    def read(survey: Survey) -> tuple[Asker, list[Reading]]:
        asker = reader.asker(survey)
        return asker, read_figures(survey, asker, reader.settings.rules)

    found = in_threads(read, surveys, reader.access)
    model = reader.settings.model.model
    readings = [(survey, reading) for survey, (_, readings) in zip(surveys, found, strict=True) for reading in readings]
    maps = [_map(survey, reading, model) for survey, reading in readings if reading.outcome == "kept"]
    rows = [_reading(survey, reading, model) for survey, reading in readings]
    for name, table, content in (("part", MINDMAPS, maps), (FIGURE_READINGS.name, FIGURE_READINGS, rows)):
        write_table(shard.file(f"{name}-{shard.name}.parquet"), table, pa.Table.from_pylist(content, table.arrow))
    write_calls(shard.file(f"calls-{shard.name}.parquet"), (asker for asker, _ in found))
    outcomes = Counter(reading.outcome for _, reading in readings)
    failed = sum(outcomes.pop(outcome, 0) for outcome in FAILED)
    kept = outcomes.pop("kept", 0)
    shard.counts.add(Counts(read=len(readings), kept=kept, failed=failed, dropped=dict(outcomes)))


def _ask_first(surveys: list[Survey], reader: _Reader) -> None:
    """Has the batch service answer the captions of a shard, then its pictures."""
    captions = [triage_question(survey) for survey in surveys if survey.captioned]
    reader.ask_by_batch(captions)
    pictures = [
        tree_question(survey, reading.shown)
        for survey in surveys
        for reading in triage(survey, reader.asker(survey), reader.settings.max_read)
        if reading.outcome == "chosen"
    ]
    reader.ask_by_batch(pictures)


def _reading(survey: Survey, reading: Reading, model: str) -> Row:
    shape = tree_shape(reading.tree) if reading.tree else None
    return {
        "corpus_id": survey.corpus_id,
        "figure": reading.shown.figure,
        "image_sha256": reading.shown.image_sha256,
        "outcome": reading.outcome,
        "note": reading.note,
        "nodes": shape.nodes if shape else None,
        "depth": shape.depth if shape else None,
        "tree": dump_tree(reading.tree) if reading.tree else None,
        "raw": reading.raw,
        "model": model,
        "prompt_id": reading.prompt_id,
    }


def _map(survey: Survey, reading: Reading, model: str) -> Row:
    assert reading.tree is not None
    shape = tree_shape(reading.tree)
    return {
        "topic_id": survey.corpus_id,
        "title": survey.title,
        "tree": dump_tree(reading.tree),
        "nodes": shape.nodes,
        "depth": shape.depth,
        "source": "figure model",
        "figure": reading.shown.figure,
        "caption": reading.shown.caption,
        "image_sha256": reading.shown.image_sha256,
        "model": model,
        "prompt_id": reading.prompt_id,
    }
