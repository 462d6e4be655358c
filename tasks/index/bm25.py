"""Stage `bm25`: builds a tantivy index of one field of the documents; `Bm25Index` opens it for search."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import tantivy

from schemas.errors import BadInput
from schemas.identifiers import Field
from schemas.settings import Settings, Stemming
from tasks.index.analysis import NAMES, analyze, analyzer
from tasks.index.fields import Bucket, FieldText, field_buckets, field_texts
from tasks.index.ranked import Ranked, first_in_order
from tasks.store.dataset import Dataset
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

FOLDER = "index"
BODY = "body"
CORPUS_ID = "corpus_id"
SEGMENT_FILES = ("fast", "fieldnorm", "idx", "pos", "store", "term")
"""Extensions of the files of a tantivy segment."""

SHARD_DOCUMENTS = 50_000
"""Buckets are grouped into shards of up to about this many documents."""

SEGMENT_BYTES = 512 * 2**20
"""A segment is closed after this much text, so that it always fits in `HEAP_BYTES` and is written in one piece."""

HEAP_BYTES = 1_000_000_000
"""Memory limit of the index writer."""


class Bm25Settings(Settings):
    """Which field is indexed."""

    field: Field
    stemming: Stemming = "none"


class _Group(NamedTuple):
    """The buckets that one shard indexes, and a scratch folder."""

    number: int
    buckets: tuple[Bucket, ...]
    settings: Bm25Settings
    scratch: Path

    @property
    def description(self) -> str:
        """Name of the file that holds tantivy's description of the group's segments."""
        return f"segments-{self.number:05d}.json"

    @property
    def files(self) -> list[Path]:
        """All files that the group's segments depend on."""
        return [path for bucket in self.buckets for path in bucket if path]


@stage("bm25", version=2, settings=Bm25Settings, after="statistics")
def bm25(work: Workspace[Bm25Settings]) -> None:
    """Indexes a field of all documents with tantivy; equal documents give equal bytes.

    Inputs: `documents`; `full_texts` when the field is `text`. Output: a standard tantivy index in the folder `index`.

    Tantivy itself names segments at random and merges them at any time. Here one thread writes each segment with one
    commit into an index of its own, the segment is renamed to its position, and a single description lists all
    segments. So several processes can build segments, a killed build resumes at the shard, and segments whose documents
    did not change are reused. Scores do not depend on the split, because tantivy sums its statistics over segments.
    """
    field = work.settings.field
    groups = {
        f"{number:05d}": _Group(number, buckets, work.settings, work.scratch)
        for number, buckets in enumerate(_group_buckets(field_buckets(work, field)))
    }
    work.map_shards(_index_group, groups, {name: group.files for name, group in groups.items()})
    for shard in work.pending(["description"]):
        with shard:
            found = [json.loads((work.folder / group.description).read_bytes()) for group in groups.values()]
            merged = _merge_descriptions(found)
            shard.file(f"{FOLDER}/meta.json").write_text(json.dumps(merged, indent=1))


def _group_buckets(buckets: Sequence[Bucket]) -> Iterator[tuple[Bucket, ...]]:
    """Yields groups of consecutive buckets; the size is a power of two, so it rarely changes as a corpus grows."""
    documents = sum(bucket.rows for bucket in buckets)
    most = max(1, SHARD_DOCUMENTS * len(buckets) // max(1, documents))
    size = 1 << (most.bit_length() - 1)
    for start in range(0, len(buckets), size):
        yield tuple(buckets[start : start + size])


def _index_group(shard: Shard, group: _Group) -> None:
    """Writes the segments of one group, and tantivy's description of them for the last shard to merge."""
    shard.counts.read = sum(bucket.rows for bucket in group.buckets)
    field, stemming = group.settings.field, group.settings.stemming
    texts = (text for bucket in group.buckets for text in field_texts(field, bucket))
    descriptions: list[dict[str, Any]] = []
    for place, chunk in enumerate(_chunks(texts)):
        folder = Path(mkdtemp(dir=group.scratch))  # stays until the build deletes its scratch
        descriptions.append(_write_segments(shard, chunk, f"{group.number:08x}{place:08x}", folder, stemming))
    merged = _merge_descriptions(descriptions)
    shard.counts.kept = sum(segment["max_doc"] for segment in merged["segments"])
    if missing := shard.counts.read - shard.counts.kept:
        shard.counts.dropped[f"no_{field}"] = missing
    shard.file(group.description).write_text(json.dumps(merged))


def _chunks(texts: Iterator[FieldText]) -> Iterator[Iterator[FieldText]]:
    """Splits a stream into chunks of about `SEGMENT_BYTES` of text; yields at least one chunk, which may be empty."""

    def chunk(first: FieldText | None) -> Iterator[FieldText]:
        size = 0
        while first is not None:
            yield first
            size += len(first.text)
            if size >= SEGMENT_BYTES:
                return
            first = next(texts, None)

    first = next(texts, None)
    yield chunk(first)
    while (first := next(texts, None)) is not None:
        yield chunk(first)


def _write_segments(
    shard: Shard, texts: Iterable[FieldText], prefix: str, folder: Path, stemming: Stemming
) -> dict[str, Any]:
    """Indexes texts in an empty folder, moves the files to the shard under new names, and returns their description.

    One commit writes one segment, or a few in a fixed order when a single text exceeds the writer's memory.
    """
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(BODY, tokenizer_name=NAMES[stemming], index_option="freq")
    schema.add_integer_field(CORPUS_ID, fast=True)
    index = tantivy.Index(schema.build(), path=str(folder))
    index.register_tokenizer(NAMES[stemming], analyzer(stemming))
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    for corpus_id, text in texts:
        writer.add_document(tantivy.Document(body=text, corpus_id=corpus_id))
    writer.commit()
    writer.wait_merging_threads()
    description = json.loads((folder / "meta.json").read_bytes())
    for place, segment in enumerate(description["segments"]):
        old, new = segment["segment_id"].replace("-", ""), f"{prefix}{place:016x}"
        segment["segment_id"] = new
        for part in SEGMENT_FILES:
            (folder / f"{old}.{part}").replace(shard.file(f"{FOLDER}/{new}.{part}"))
    return description


def _merge_descriptions(descriptions: list[dict[str, Any]]) -> dict[str, Any]:
    """Merges the descriptions (tantivy's `meta.json`) of several indexes with the same schema into one."""
    segments = [segment for description in descriptions for segment in description["segments"]]
    return {**descriptions[0], "segments": segments, "opstamp": sum(segment["max_doc"] for segment in segments)}


class Bm25Index:
    """A BM25 index opened for search; tantivy fixes `k1` = 1.2 and `b` = 0.75.

    Args:
        dataset: Dataset of stage `bm25`. Nothing is written into it, so it may be on a read-only disk.

    Raises:
        BadInput: Tantivy cannot read the index.

    Source:
        Lucene's BM25: `sum_t idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl))` with
        `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`; `dl` is stored in one byte, as Lucene does.
    """

    def __init__(self, dataset: Dataset) -> None:
        try:
            index = tantivy.Index.open(str(dataset.linked(FOLDER)))
            index.config_reader("manual")
            self._searcher = index.searcher()
        except (ValueError, OSError) as error:
            raise BadInput(f"{dataset.path(FOLDER)}: {error}; rebuild stage bm25 with force") from error
        self._schema = index.schema
        self._stemming: Stemming = dataset.manifest.settings(bm25).stemming

    @cached_property
    def size(self) -> int:
        """Number of indexed documents."""
        return self._searcher.num_docs

    def terms(self, text: str) -> list[str]:
        """Returns the index terms of a text in order, with repetitions."""
        return analyze(text, self._stemming)

    def document_frequency(self, term: str) -> int:
        """Returns the number of documents that contain a term."""
        return self._searcher.doc_freq(BODY, term)

    def search(self, weights: Mapping[str, float], n: int) -> Ranked:
        """Returns the top `n` documents that contain any of the terms, by the sum of weight times BM25.

        Args:
            weights: Weight of each index term, > 0.
            n: Number of documents, >= 1.
        """
        if not weights or not self.size:
            return Ranked.nothing()
        query = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, self._term(term, weight)) for term, weight in sorted(weights.items())]
        )
        return first_in_order(lambda depth: self._fetch(query, depth), n, self.size)

    def _term(self, term: str, weight: float) -> tantivy.Query:
        return tantivy.Query.boost_query(tantivy.Query.term_query(self._schema, BODY, term, "freq"), weight)

    def _fetch(self, query: tantivy.Query, depth: int) -> Ranked:
        hits = self._searcher.search(query, depth, count=False).hits
        ids = self._searcher.fast_field_values(CORPUS_ID, [address for _, address in hits])
        return Ranked(np.array(ids, np.int64), np.array([score for score, _ in hits], np.float32))
