"""Gold mind-maps: how the authors of a survey organised their field."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class MindmapRow(NamedTuple):
    """The mind-map of one survey."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    title: Annotated[str, Column(pa.string(), "Title of the survey")]
    tree: Annotated[str, Column(pa.string(), 'JSON list of the top nodes, `{"label": str, "children": [...]}` each')]
    nodes: Annotated[int, Column(pa.int32(), "Number of nodes")]
    depth: Annotated[int, Column(pa.int32(), "Number of levels; a lone node has 1")]
    source: Annotated[str, Column(pa.string(), "`file`: transcribed by people; `figure model`: read off a figure")]
    figure: Annotated[str | None, Column(pa.string(), "Name of the figure's picture")]
    caption: Annotated[str | None, Column(pa.string(), "The figure's caption")]
    image_sha256: Annotated[str | None, Column(pa.string(), "Digest of the picture that was read")]
    model: Annotated[str | None, Column(pa.string(), "Model that read the figure")]
    prompt_id: Annotated[str | None, Column(pa.string(), "Prompt that was used, with its version")]


MINDMAPS = declare(Table("mindmaps", MindmapRow, key=("topic_id",), order=("topic_id",)))
