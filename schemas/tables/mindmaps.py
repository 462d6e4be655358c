"""Gold mind-maps: how the authors of a survey organised their field."""

import pyarrow as pa

from schemas.table import Column, Table, declare

MINDMAPS = declare(
    Table(
        "mindmaps",
        "The mind-map of one survey.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("title", pa.string(), "Title of the survey"),
            Column("tree", pa.string(), 'JSON list of the top nodes, `{"label": str, "children": [...]}` each'),
            Column("nodes", pa.int32(), "Number of nodes"),
            Column("depth", pa.int32(), "Number of levels; a lone node has 1"),
            Column("source", pa.string(), "`file`: transcribed by people; `figure model`: read off a figure"),
            Column("figure", pa.string(), "Name of the figure's picture", nullable=True),
            Column("caption", pa.string(), "The figure's caption", nullable=True),
            Column("image_sha256", pa.string(), "Digest of the picture that was read", nullable=True),
            Column("model", pa.string(), "Model that read the figure", nullable=True),
            Column("prompt_id", pa.string(), "Prompt that was used, with its version", nullable=True),
        ),
        key=("topic_id",),
        order=("topic_id",),
    )
)
