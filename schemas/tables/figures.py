"""Figures of surveys with their captions and pictures, and those that could not be used."""

import pyarrow as pa

from schemas.table import Column, Table, declare

FIGURES = declare(
    Table(
        "figures",
        "One figure or table of a survey whose picture can be read.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the survey"),
            Column("place", pa.int32(), "Which of the survey's figures, from 0, in the order of its source"),
            Column("figure", pa.string(), "Name of the picture in its source"),
            Column("kind", pa.string(), "`Figure` or `Table`, as the extractor says"),
            Column("page", pa.int32(), "Page of the paper, from 0", nullable=True),
            Column("caption", pa.string(), "Caption, trimmed", nullable=True),
            Column("image_sha256", pa.string(), "Digest of the picture's bytes"),
            Column("media_type", pa.string(), "Type by the picture's first bytes: `image/png`, ..."),
            Column("width", pa.int32(), "By the picture's header", unit="pixels"),
            Column("height", pa.int32(), "By the picture's header", unit="pixels"),
            Column("url", pa.string(), "Where it was fetched from", nullable=True),
            Column("image", pa.large_binary(), "The picture's file as it was found"),
        ),
        key=("corpus_id", "figure"),
        order=("corpus_id", "place"),
    )
)

DROPPED_FIGURES = declare(
    Table(
        "dropped_figures",
        "One figure, or one survey's list of figures, that could not be used.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the survey"),
            Column("figure", pa.string(), "Name of the picture as given; null: the whole list", nullable=True),
            Column("reason", pa.string(), "Why, in one word"),
        ),
        order=("corpus_id",),
    )
)
