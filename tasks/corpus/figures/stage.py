"""Stage `figures`: figures of surveys with captions and checked pictures."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow.compute as pc
from pydantic import Field

from schemas.errors import BadInput, UsageError
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.figures import DROPPED_FIGURES, FIGURES, DroppedFigureRow, FigureRow
from tasks.corpus.figures.folder import FolderFigures
from tasks.corpus.figures.picture import check_picture
from tasks.corpus.figures.source import FigureSource, Listed
from tasks.corpus.figures.website import HttpFigures, HttpFigureSettings
from tasks.llm.images import MAX_BYTES
from tasks.store.dataset import Dataset
from tasks.store.parquet import TableWriter, read_table, write_rows
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

ROW_GROUP = 16
"""Figures of a row group: pictures are large and read a few at a time."""


class FigureSettings(Settings):
    """Where figures come from."""

    buckets: int = Field(default=16, ge=1, le=4096, description="Files of the dataset, by corpus_id modulo this.")
    http: HttpFigureSettings | None = Field(
        default=None, description="A web server with figures; empty: the input `files`, a folder."
    )


@stage("figures", version=1, settings=FigureSettings, after="edges")
def figures(work: Workspace[FigureSettings]) -> None:
    """Writes one row for each figure with a readable picture, and the others with the reason to `dropped_figures`.

    Inputs: `topics`, all of whose surveys count, whatever their outcome; `files`, a folder of figures
    (`tasks.release.mirror.open_figures`), unless figures are fetched. A shard is a bucket of surveys. Fetched figures
    survive a kill, and a picture that an earlier dataset has from the same URL is not fetched again.

    Raises:
        UsageError: Neither a folder nor a web server is given, or both are.
        TransientError: The web server cannot be reached.

    Source: the pdffigures2 extractor, whose names the Semantic Scholar website's pictures have.
    """
    if (work.settings.http is None) != ("files" in work.inputs):
        raise UsageError("stage figures: give either a folder of figures or URLs of a web server, not both")
    ids: list[int] = sorted(work.dataset("topics").table(columns=["topic_id"])["topic_id"].to_pylist())
    names = {f"{bucket:05d}": bucket for bucket in range(work.settings.buckets)}
    with _source(work) as source:
        for shard in work.pending(list(names)):
            with shard:
                chosen = [i for i in ids if i % work.settings.buckets == names[shard.name]]
                _write(shard, source, chosen)


@contextmanager
def _source(work: Workspace[FigureSettings]) -> Generator[FigureSource]:
    if work.settings.http is None:
        yield FolderFigures(work.release("files"), MAX_BYTES)
        return
    with HttpFigures(work.settings.http, work.scratch / "http", MAX_BYTES, _fetched_before(work.earlier)) as source:
        yield source


def _fetched_before(earlier: tuple[Dataset, ...]) -> Callable[[str], bytes | None]:
    """Returns a lookup of earlier datasets' pictures by URL; only the URLs are held in memory."""
    where = {
        url: path
        for dataset in reversed(earlier)
        if dataset.whole
        for path in dataset.files()
        for url in read_table(path, columns=["url"])["url"].to_pylist()
        if url
    }

    def find(url: str) -> bytes | None:
        if url not in where:
            return None
        return read_table(where[url], columns=["image"], filters=pc.field("url") == url)["image"][0].as_py()

    return find


def _write(shard: Shard, source: FigureSource, ids: list[int]) -> None:
    dropped: list[DroppedFigureRow] = []
    without = 0
    with TableWriter(shard.file(f"part-{shard.name}.parquet"), FIGURES, row_group=ROW_GROUP) as writer:
        for corpus_id in ids:
            before = writer.rows + len(dropped)
            for row in _figures_of(source, corpus_id):
                if isinstance(row, DroppedFigureRow):
                    dropped.append(row)
                else:
                    writer.write(FIGURES.of([row]))
            without += writer.rows + len(dropped) == before
    write_rows(shard.file(f"dropped_figures-{shard.name}.parquet"), DROPPED_FIGURES, dropped)
    reasons = dict(Counter(row.reason for row in dropped))
    notes = {"surveys": float(len(ids)), "surveys_without_figures": float(without)}
    shard.counts.add(Counts(read=writer.rows + len(dropped), kept=writer.rows, dropped=reasons, notes=notes))


def _figures_of(source: FigureSource, corpus_id: int) -> Iterator[FigureRow | DroppedFigureRow]:
    try:
        listed = source.figures(corpus_id)
    except BadInput as error:
        yield DroppedFigureRow(corpus_id, None, str(error))
        return
    for place, found in enumerate(listed):
        if isinstance(found, Listed):
            yield _figure(source, corpus_id, place, found)
        else:
            yield DroppedFigureRow(corpus_id, found.picture, found.reason)


def _figure(source: FigureSource, corpus_id: int, place: int, listed: Listed) -> FigureRow | DroppedFigureRow:
    try:
        picture = source.picture(corpus_id, listed.picture)
        checked = check_picture(picture.data)
    except BadInput as error:
        return DroppedFigureRow(corpus_id, listed.picture, str(error))
    return FigureRow(
        corpus_id=corpus_id,
        place=place,
        figure=listed.picture,
        kind=listed.kind,
        page=listed.page,
        caption=listed.caption,
        image_sha256=checked.image.sha256,
        media_type=checked.image.media_type,
        width=checked.width,
        height=checked.height,
        url=picture.url,
        image=checked.image.data,
    )
