"""Figures of surveys with their captions and pictures, and those that could not be used."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class FigureRow(NamedTuple):
    """One figure or table of a survey whose picture can be read."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the survey")]
    place: Annotated[int, Column(pa.int32(), "Which of the survey's figures, from 0, in the order of its source")]
    figure: Annotated[str, Column(pa.string(), "Name of the picture in its source")]
    kind: Annotated[str, Column(pa.string(), "`Figure` or `Table`, as the extractor says")]
    page: Annotated[int | None, Column(pa.int32(), "Page of the paper, from 0")]
    caption: Annotated[str | None, Column(pa.string(), "Caption, trimmed")]
    image_sha256: Annotated[str, Column(pa.string(), "Digest of the picture's bytes")]
    media_type: Annotated[str, Column(pa.string(), "Type by the picture's first bytes: `image/png`, ...")]
    width: Annotated[int, Column(pa.int32(), "By the picture's header", unit="pixels")]
    height: Annotated[int, Column(pa.int32(), "By the picture's header", unit="pixels")]
    url: Annotated[str | None, Column(pa.string(), "Where it was fetched from")]
    image: Annotated[bytes, Column(pa.large_binary(), "The picture's file as it was found")]


FIGURES = declare(Table("figures", FigureRow, key=("corpus_id", "figure"), order=("corpus_id", "place")))


class DroppedFigureRow(NamedTuple):
    """One figure, or one survey's list of figures, that could not be used."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the survey")]
    figure: Annotated[str | None, Column(pa.string(), "Name of the picture as given; null: the whole list")]
    reason: Annotated[str, Column(pa.string(), "Why, in one word")]


DROPPED_FIGURES = declare(Table("dropped_figures", DroppedFigureRow, order=("corpus_id",)))
