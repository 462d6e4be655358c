"""What a model made of each figure of a survey: whether it may be a mind-map, and the tree read off it."""

import pyarrow as pa

from schemas.table import Column, Table, declare

FIGURE_READINGS = declare(
    Table(
        "figure_readings",
        "One figure of a survey on its way to a mind-map.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the survey"),
            Column("figure", pa.string(), "Name of the picture in its source"),
            Column("image_sha256", pa.string(), "Digest of the picture's bytes"),
            Column(
                "outcome",
                pa.string(),
                "`kept`, or why not: `no_caption`, `not_asked` (too many captions), `triage_failed`, `not_chosen` (by "
                "its caption), `not_read` (too many chosen), `failed`, `refused`, `no_map`, `bad_tree`, `too_small`, "
                "`too_flat`, `too_deep`, `long_label`, `smaller_map`",
            ),
            Column("note", pa.string(), "What was wrong, in words", nullable=True),
            Column("nodes", pa.int32(), "Number of nodes of the tree", nullable=True),
            Column("depth", pa.int32(), "Number of levels of the tree", nullable=True),
            Column("tree", pa.string(), "The canonical tree as in `mindmaps`", nullable=True),
            Column("raw", pa.large_string(), "The model's reply to the picture as received", nullable=True),
            Column("model", pa.string(), "Model that was asked"),
            Column("prompt_id", pa.string(), "Last prompt that was used, with its version", nullable=True),
        ),
        key=("corpus_id", "figure"),
        order=("corpus_id",),
    )
)
