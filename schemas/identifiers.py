"""Names of things: the id types that keep a paper from being passed where a stage is meant."""

from typing import Literal, NewType

CorpusId = NewType("CorpusId", int)
"""Semantic Scholar's integer id of a paper."""

ReleaseId = NewType("ReleaseId", str)
"""A release's date stamp, for example `2024-02-06`."""

Digest = NewType("Digest", str)
"""Hexadecimal hash of content (of a dataset's files, or of a release's files)."""

Key = NewType("Key", str)
"""Hexadecimal hash of what a stage is asked for: name, version, parameters, digests of inputs."""

StageName = NewType("StageName", str)
"""The name of a stage of the pipeline; `tasks.store.stages` knows them all."""

STAGE_PATTERN = r"^[a-z][a-z0-9_]*$"
"""What a stage may be named: the name is a folder of the store."""

DatasetName = Literal[
    "papers", "abstracts", "citations", "s2orc", "s2orc_v2", "mindmaps", "figures",
    "airqa_questions", "airqa_metadata", "airqa_processed", "airqa_pdfs",
    "search_queries", "recorded_results", "human_judgments",
]  # fmt: skip
"""The datasets that the pipeline reads: Semantic Scholar's, `mindmaps`, which people transcribe, `figures`,
as an extractor lays them out, and AirQA's files."""

Field = Literal["title", "abstract", "title_abstract", "text"]
"""What of a document is indexed. A missing abstract is replaced by the title."""

Outcome = Literal["scored", "empty", "failed", "over_budget", "refused"]
"""How a system ended on a topic; a column beside every score."""
