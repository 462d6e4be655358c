"""Stage `extracted_mindmaps`: a model reads mind-maps from the figures of surveys."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow.compute as pc
from pydantic import Field

from schemas.llm import Image, ModelName
from schemas.llm_settings import LlmAccess
from schemas.manifest import Counts
from schemas.mindmap import dump_tree, tree_shape
from schemas.settings import Settings
from schemas.tables.figure_readings import FIGURE_READINGS, FigureReadingRow
from schemas.tables.mindmaps import MINDMAPS, MindmapRow
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
from tasks.corpus.mindmaps import read_titles
from tasks.llm.asker import Asker, SubjectPool, open_door, write_calls
from tasks.llm.blocking import BlockingDoor
from tasks.llm.filled_prompt import FilledPrompt, ask_by_batch
from tasks.llm.images import read_image
from tasks.store.parquet import read_table, write_rows
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

FAILED = ("failed", "refused", "triage_failed")
"""Outcomes of a figure that count as failures of the model."""


class ExtractedMindmapSettings(Settings):
    """Which model reads figures, and which maps are kept."""

    model: ModelName = Field(description="Model that reads captions and pictures; it must accept images.")
    max_read: int = Field(default=6, ge=1, le=100, description="Figures read per survey, the first of those chosen.")
    max_label: int = Field(default=200, ge=1, description="A map with a longer label, in characters, is dropped.")

    @property
    def rules(self) -> Rules:
        """The limits of `read_figures`."""
        return Rules(self.max_read, self.max_label)


class _Read(NamedTuple):
    """A survey, who asked about it, and what was read off its figures."""

    survey: Survey
    asker: Asker
    readings: list[Reading]


class _Reader(NamedTuple):
    """The model that reads the figures of a shard, and how to ask it."""

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


@stage("extracted_mindmaps", version=2, settings=ExtractedMindmapSettings, after="figures")
def extracted_mindmaps(work: Workspace[ExtractedMindmapSettings]) -> None:
    """Writes one row per survey with a map (MINDMAPS); side tables `figure_readings` (every figure) and `calls`.

    Inputs: `topics`, `figures`. A model chooses figures by their captions, then reads the tree in each chosen picture.
    Each survey has at most one map: the valid one with the most nodes, and of equally large ones the first. Reaching
    the budget cap ends the stage, as in stage `surveys`; unusable replies are counted as failed.

    Raises:
        UsageError: No endpoint is set up, or not the one that the settings name.
        OverBudget: The cap leaves too little for the next call.

    Source: section 3 of the ResearchArena paper, which names neither the model nor any checks.
    """
    titles = read_titles(work)
    files = {path.stem.removeprefix("part-"): path for path in work.dataset("figures").files()}
    if work.finished() >= set(files):
        return
    with open_door(work.llm, work.settings.model) as door:
        reader = _Reader(door, cast(LlmAccess, work.llm), work.settings)
        held: dict[str, list[_Read]] = {}
        for shard, found in _read(work, reader, {name: _surveys(path, titles) for name, path in files.items()}):
            if all(asker.settled for _, asker, _ in found):
                with shard:
                    _write(shard, found, work.settings.model.model)
            else:
                held[shard.name] = found
    for shard in work.pending(list(held)):  # only when the stage ended within its share of failed calls
        with shard:
            _write(shard, held[shard.name], work.settings.model.model)


def _surveys(path: Path, titles: Mapping[int, str]) -> list[Survey]:
    """Returns the surveys of a file of FIGURES in order; pictures are loaded only when needed."""
    rows = read_table(path, columns=["corpus_id", "figure", "caption", "image_sha256"]).to_pylist()
    figures: dict[int, list[Shown]] = {}
    for row in rows:
        figures.setdefault(row.pop("corpus_id"), []).append(Shown(**row))
    return [Survey(i, titles[i], found, _loader(path, i)) for i, found in figures.items() if i in titles]


def _loader(path: Path, corpus_id: int) -> Callable[[str], Image]:
    def load(figure: str) -> Image:
        wanted = (pc.field("corpus_id") == corpus_id) & (pc.field("figure") == figure)
        data = read_table(path, columns=["image"], filters=wanted)["image"][0].as_py()
        return read_image(data, f"{figure} of survey {corpus_id}")

    return load


def _read(
    work: Workspace[ExtractedMindmapSettings], reader: _Reader, surveys: Mapping[str, list[Survey]]
) -> Iterator[tuple[Shard, list[_Read]]]:
    """Yields each unfinished shard with what was read; surveys of all shards are read side by side."""

    def read(survey: Survey) -> _Read:
        asker = reader.asker(survey)
        return _Read(survey, asker, read_figures(survey, asker, reader.settings.rules))

    finished = work.finished()
    with SubjectPool(read, reader.access) as pool:
        asked: dict[str, list[Future[_Read]]] = {}
        for name, given in surveys.items():
            if name not in finished:
                if reader.access.settings.batch:
                    _send_batches(given, reader)
                asked[name] = [pool.submit(survey) for survey in given]
        for shard in work.pending(list(surveys)):
            yield shard, [future.result() for future in asked.pop(shard.name)]


def _write(shard: Shard, found: list[_Read], model: str) -> None:
    readings = [(survey, reading) for survey, _, readings in found for reading in readings]
    maps = [_map(survey, reading, model) for survey, reading in readings if reading.outcome == "kept"]
    rows = [_reading(survey, reading, model) for survey, reading in readings]
    write_rows(shard.file(f"part-{shard.name}.parquet"), MINDMAPS, maps)
    write_rows(shard.file(f"{FIGURE_READINGS.name}-{shard.name}.parquet"), FIGURE_READINGS, rows)
    write_calls(shard.file(f"calls-{shard.name}.parquet"), (asker for _, asker, _ in found))
    outcomes = Counter(reading.outcome for _, reading in readings)
    failed = sum(outcomes.pop(outcome, 0) for outcome in FAILED)
    kept = outcomes.pop("kept", 0)
    shard.counts.add(Counts(read=len(readings), kept=kept, failed=failed, dropped=dict(outcomes)))


def _send_batches(surveys: list[Survey], reader: _Reader) -> None:
    """Sends the captions of a shard to the batch service, then its pictures."""
    captions = [triage_question(survey) for survey in surveys if survey.captioned]
    reader.ask_by_batch(captions)
    pictures = [
        tree_question(survey, reading.shown)
        for survey in surveys
        for reading in triage(survey, reader.asker(survey), reader.settings.max_read)
        if reading.outcome == "chosen"
    ]
    reader.ask_by_batch(pictures)


def _reading(survey: Survey, reading: Reading, model: str) -> FigureReadingRow:
    shape = tree_shape(reading.tree) if reading.tree else None
    return FigureReadingRow(
        corpus_id=survey.corpus_id,
        figure=reading.shown.figure,
        image_sha256=reading.shown.image_sha256,
        outcome=reading.outcome,
        note=reading.note,
        nodes=shape.nodes if shape else None,
        depth=shape.depth if shape else None,
        tree=dump_tree(reading.tree) if reading.tree else None,
        raw=reading.raw,
        model=model,
        prompt_id=reading.prompt_id,
    )


def _map(survey: Survey, reading: Reading, model: str) -> MindmapRow:
    assert reading.tree is not None
    shape = tree_shape(reading.tree)
    return MindmapRow(
        topic_id=survey.corpus_id,
        title=survey.title,
        tree=dump_tree(reading.tree),
        nodes=shape.nodes,
        depth=shape.depth,
        source="figure model",
        figure=reading.shown.figure,
        caption=reading.shown.caption,
        image_sha256=reading.shown.image_sha256,
        model=model,
        prompt_id=reading.prompt_id,
    )
