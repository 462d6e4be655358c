"""Finds the candidates for surveys: papers in scope, in English, with "survey" in the title.

Scale: buckets are read in worker processes, a few thousand papers at a time. Of a full release some hundred thousand
papers pass the title filter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from schemas.manifest import Counts
from schemas.settings import Settings, SurveyScope
from schemas.tables.bibliography import BIBLIOGRAPHY
from schemas.tables.dropped_candidates import DROPPED_CANDIDATES
from tasks.corpus.buckets import matching_files
from tasks.corpus.language import foreign_language
from tasks.corpus.survey_selector import TITLE_PATTERNS, Word
from tasks.store.dataset import MAIN
from tasks.store.parquet import ParquetReader
from tasks.store.shard import Shard
from tasks.store.workspace import P, Workspace

ROWS = 16 * 1024
"""Papers in memory at a time."""

KEPT, DROPPED = "candidates", "dropped"
"""Scratch folders of the papers kept and of those left out."""

_COLUMNS = ["corpus_id", "title", "abstract", "has_full_text"]
_DROPPED = DROPPED_CANDIDATES.arrow.remove_metadata()


class CandidateSettings(Settings):
    """Which papers are candidates."""

    word: Word = Field(default="substring", description="How a title must contain 'survey' to be a candidate.")
    scope: SurveyScope = Field(
        default="all", description="Which papers are candidates, by what the release has of them."
    )
    english: bool = Field(default=True, description="Take only papers in English.")


class Found(NamedTuple):
    """Scratch files by bucket: candidates (`corpus_id`, `title`, `abstract`), and rows of DROPPED_CANDIDATES."""

    candidates: list[Path]
    dropped: list[Path]


class _Bucket(NamedTuple):
    """One bucket of papers; `citing` are files of the same bucket with ids of papers that cite, and the column."""

    papers: Path
    citing: tuple[tuple[Path, str], ...]
    settings: CandidateSettings


def find_candidates(work: Workspace[P], settings: CandidateSettings) -> Found:
    """Finds the candidates of every bucket, a shard each, and counts the other papers by reason.

    Inputs: `papers`; for the scope `references` also `citation_records`, and `full_texts` where there are any.

    Raises:
        BadInput: The inputs have different buckets.

    Source: section 3.1 of the ResearchArena paper: English papers with full text (scope `full_text`).
    """
    files = work.dataset("papers").files()
    sources: list[list[tuple[Path, str]]] = []
    if settings.scope == "references":
        edges = matching_files(work, "citation_records", files)
        sources.append([(path, "citing_corpus_id") for path in edges])
        if "full_texts" in work.inputs:
            entries = matching_files(work, "full_texts", files, BIBLIOGRAPHY.name)
            sources.append([(path, "corpus_id") for path in entries])
    citing = zip(*sources, strict=True) if sources else ((),) * len(files)
    buckets = {
        f"{KEPT}-{papers.stem.removeprefix(f'{MAIN}-')}": _Bucket(papers, tuple(of_bucket), settings)
        for papers, of_bucket in zip(files, citing, strict=True)
    }
    sizes = {name: bucket.papers.stat().st_size for name, bucket in buckets.items()}
    work.map_shards(_find_in_bucket, buckets, sizes=sizes)
    return Found(*([work.scratch / folder / f"{name}.parquet" for name in buckets] for folder in (KEPT, DROPPED)))


def _find_in_bucket(shard: Shard, bucket: _Bucket) -> None:
    read, named = _read_named(bucket)
    reasons, languages = _reasons(named, bucket)
    dropped = named.select(["corpus_id", "title"]).append_column("reason", reasons).append_column("language", languages)
    pq.write_table(named.filter(reasons.is_null()).select(_COLUMNS[:3]), shard.scratch(f"{KEPT}/{shard.name}.parquet"))
    dropped = dropped.filter(reasons.is_valid()).cast(_DROPPED)
    pq.write_table(dropped, shard.scratch(f"{DROPPED}/{shard.name}.parquet"))
    shard.counts.add(Counts(read=read, dropped={"title": read - len(named), **Counter(dropped["reason"].to_pylist())}))


def _read_named(bucket: _Bucket) -> tuple[int, pa.Table]:
    """Returns the number of papers in the bucket, and those of them whose titles contain the word."""
    options = pc.MatchSubstringOptions(TITLE_PATTERNS[bucket.settings.word])
    found: list[pa.Table] = []
    with ParquetReader(bucket.papers) as file:
        schema = file.read_row_groups([], columns=_COLUMNS)
        for batch in file.iter_batches(ROWS, columns=_COLUMNS):
            has_word = pc.call_function("match_substring_regex", [batch["title"]], options)
            found.append(pa.Table.from_batches([batch]).filter(has_word))
        return file.metadata.num_rows, pa.concat_tables([schema, *found]).combine_chunks()


def _reasons(named: pa.Table, bucket: _Bucket) -> tuple[pa.Array, pa.Array]:
    """Returns for each paper why it is no candidate, null for a candidate; and its language if it is not in English."""
    outside = f"no_{bucket.settings.scope}"
    in_scope = _in_scope(named, bucket)
    languages = [
        foreign_language(title, abstract) if wanted and bucket.settings.english else None
        for title, abstract, wanted in zip(
            named["title"].to_pylist(), named["abstract"].to_pylist(), in_scope, strict=True
        )
    ]
    reasons = [
        outside if not wanted else "not_english" if language else None
        for wanted, language in zip(in_scope, languages, strict=True)
    ]
    return pa.array(reasons, pa.string()), pa.array(languages, pa.string())


def _in_scope(named: pa.Table, bucket: _Bucket) -> list[bool]:
    if bucket.settings.scope == "full_text":
        return named["has_full_text"].to_pylist()
    if bucket.settings.scope == "all":
        return [True] * len(named)
    return _is_citing(named["corpus_id"].to_numpy(), bucket.citing).tolist()


def _is_citing(ids: NDArray[np.int64], sources: Iterable[tuple[Path, str]]) -> NDArray[np.bool_]:
    """Returns which of the papers are among those that cite."""
    found = np.zeros(len(ids), bool)
    for citing in _read_ids(sources):
        found |= np.isin(ids, citing)
    return found


def _read_ids(sources: Iterable[tuple[Path, str]]) -> Iterator[NDArray[np.int64]]:
    for path, column in sources:
        with ParquetReader(path) as file:
            for batch in file.iter_batches(ROWS * 16, columns=[column]):
                yield batch[column].to_numpy()
