"""What a model made of each figure of a survey: whether it may be a mind-map, and the tree read off it."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class FigureReadingRow(NamedTuple):
    """One figure of a survey on its way to a mind-map."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the survey")]
    figure: Annotated[str, Column(pa.string(), "Name of the picture in its source")]
    image_sha256: Annotated[str, Column(pa.string(), "Digest of the picture's bytes")]
    outcome: Annotated[
        str,
        Column(
            pa.string(),
            "`kept`, or why not: `no_caption`, `not_asked` (too many captions), `triage_failed`, `not_chosen` (by "
            "its caption), `not_read` (too many chosen), `failed`, `refused`, `no_map`, `bad_tree`, `too_small`, "
            "`too_flat`, `too_deep`, `long_label`, `smaller_map`",
        ),
    ]
    note: Annotated[str | None, Column(pa.string(), "What was wrong, in words")]
    nodes: Annotated[int | None, Column(pa.int32(), "Number of nodes of the tree")]
    depth: Annotated[int | None, Column(pa.int32(), "Number of levels of the tree")]
    tree: Annotated[str | None, Column(pa.string(), "The canonical tree as in `mindmaps`")]
    raw: Annotated[str | None, Column(pa.large_string(), "The model's reply to the picture as received")]
    model: Annotated[str, Column(pa.string(), "Model that was asked")]
    prompt_id: Annotated[str | None, Column(pa.string(), "Last prompt that was used, with its version")]


FIGURE_READINGS = declare(Table("figure_readings", FigureReadingRow, key=("corpus_id", "figure"), order=("corpus_id",)))
