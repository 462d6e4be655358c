"""Names of things: the id types that keep a paper from being passed where a stage is meant."""

import re
from datetime import date
from typing import Annotated, Literal, NewType

from pydantic import AfterValidator, WithJsonSchema

CorpusId = NewType("CorpusId", int)
"""Semantic Scholar's integer id of a paper."""

ReleaseId = NewType("ReleaseId", str)
"""A release's date stamp, for example `2024-02-06`."""

RELEASE_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
"""What a release may be named: its name is a folder of the mirror. Digits of other scripts are no digits."""

EDITION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""What an edition may be named: its name is a file of the store."""

RUN_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+@-]{0,199}$"
"""What a run may be named: its name is part of a slot and a file of an export."""


def check_edition(name: str) -> str:
    """Returns the name of an edition.

    Raises:
        ValueError: It is none.
    """
    return _check(name, EDITION_PATTERN, "1 to 64 of A-Z a-z 0-9 . _ -, and a letter or digit first")


def is_release(name: str) -> bool:
    """Returns whether a text is a release's id: a date, such as `2024-02-06`."""
    try:
        return bool(re.fullmatch(RELEASE_PATTERN, name)) and bool(date.fromisoformat(name))
    except ValueError:
        return False


def _check_release(name: str) -> str:
    return _check(name, RELEASE_PATTERN, "a date such as 2024-02-06")


def _check_run(name: str) -> str:
    return _check(name, RUN_PATTERN, "1 to 200 of A-Z a-z 0-9 . _ + @ -, and a letter or digit first")


def _check(name: str, pattern: str, form: str) -> str:
    if not re.fullmatch(pattern, name):
        raise ValueError(f"expected {form}")
    return name


def _schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


EditionName = Annotated[str, AfterValidator(check_edition), _schema(EDITION_PATTERN)]
"""The name of an edition, checked where it enters: on the command line and in forms."""

ReleaseName = Annotated[str, AfterValidator(_check_release), _schema(RELEASE_PATTERN)]
"""The name of a release, checked where it enters."""

RunName = Annotated[str, AfterValidator(_check_run), _schema(RUN_PATTERN)]
"""The name of a run, checked where it enters."""

Digest = NewType("Digest", str)
"""Hexadecimal hash of content (of a dataset's files, or of a release's files)."""

Key = NewType("Key", str)
"""Hexadecimal hash of what a stage is asked for: name, version, parameters, digests of inputs."""

StageName = NewType("StageName", str)
"""The name of a stage of the pipeline; `tasks.store.stages` knows them all."""

STAGE_PATTERN = r"^[a-z][a-z0-9_]*$"
"""What a stage may be named: the name is a folder of the store."""

DatasetName = Literal[
    "papers", "abstracts", "citations", "s2orc", "s2orc_v2", "mindmaps", "figures", "surveys",
    "airqa_questions", "airqa_metadata", "airqa_processed", "airqa_pdfs",
    "search_queries", "recorded_results", "human_judgments", "submission",
]  # fmt: skip
"""The datasets that the pipeline reads: Semantic Scholar's, `mindmaps`, which people transcribe, `figures`,
as an extractor lays them out, `surveys` of an imported set, AirQA's files, and `submission`, a run of a system from
outside."""

Field = Literal["title", "abstract", "title_abstract", "text"]
"""What of a document is indexed. A missing abstract is replaced by the title."""

Outcome = Literal["scored", "empty", "failed", "over_budget", "refused"]
"""How a system ended on a topic; a column beside every score."""
