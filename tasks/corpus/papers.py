"""Stage `papers`: record, abstract and full text of a paper joined, its publication date resolved.

What belongs here: the join. What does not: reading release files (`records`), the rule of dates (`dates`).

Scale: every input is bucketed alike, so a bucket is joined by itself, in a process of its own with a share of the
memory (DuckDB spills beyond it). 200 M papers in 256 buckets are 0.8 M a bucket, about 1 GB of abstracts; of full texts
only ids, the parser's abstracts and one integer a paragraph are read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.full_texts import FULL_TEXTS
from schemas.tables.papers import PAPERS
from tasks.corpus.dates import resolve_date
from tasks.corpus.engine import Budget, budget_of, connect, tables
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Shard, Workspace

NOTED = ("date_unparseable", "date_year_disagrees", "abstract_from_parser", "has_full_text")

JOIN = r"""
    SELECT
        r.corpus_id,
        nullif(trim(r.title, E' \t\r\n'), '') AS title,
        coalesce(a.abstract, f.abstract) AS abstract,
        coalesce(len(f.paragraphs) > 0, false) AS has_full_text,
        d.date,
        d.precision AS date_precision,
        r.year,
        r.venue,
        r.authors,
        list_sort(list_distinct(r.fields_of_study)) AS fields_of_study,
        r.publication_types,
        r.reference_count,
        r.citation_count,
        r.doi,
        r.arxiv,
        r.url,
        d.unparseable AS date_unparseable,
        d.disagrees AS date_year_disagrees,
        a.abstract IS NULL AND f.abstract IS NOT NULL AS abstract_from_parser
    FROM records r
    JOIN dates d ON r.publication_date IS NOT DISTINCT FROM d.written AND r.year IS NOT DISTINCT FROM d.year
    LEFT JOIN abstracts a USING (corpus_id)
    LEFT JOIN full_texts f USING (corpus_id)
    ORDER BY r.corpus_id
"""

SIGNS = ["corpus_id", "abstract", "paragraphs.list.element.section"]
"""What is read of a full text: enough to see whether it has paragraphs."""

DATES = pa.schema(
    [
        ("written", pa.string()),
        ("year", pa.int32()),
        ("date", pa.date32()),
        ("precision", pa.string()),
        ("unparseable", pa.bool_()),
        ("disagrees", pa.bool_()),
    ]
)


class PapersSettings(Settings):
    """Nothing to choose: buckets are those of `paper_records`."""


class _Bucket(NamedTuple):
    records: Path
    abstracts: Path
    full_texts: Path | None
    budget: Budget

    @property
    def files(self) -> list[Path]:
        """What decides the bucket's papers."""
        return [path for path in (self.records, self.abstracts, self.full_texts) if path]


@stage("papers", version=1, settings=PapersSettings)
def papers(work: Workspace[PapersSettings]) -> None:
    """One row per paper record, in as many buckets as `paper_records` has.

    The abstract is that of `abstracts`, else the parser's. Counts: what was wrong with dates, how precise they are, how
    many papers have abstract and full text, how many abstracts and full texts belong to no paper.

    Raises:
        BadInput: The inputs are not bucketed alike.
    """
    records = work.dataset("paper_records").files()
    abstracts = _same_buckets(work, "abstract_records", records)
    texts = _same_buckets(work, "full_texts", records) if "full_texts" in work.inputs else [None] * len(records)
    budget = budget_of(work, connections=min(work.processes, len(records)))
    buckets = {r.stem: _Bucket(r, a, t, budget) for r, a, t in zip(records, abstracts, texts, strict=True)}
    work.map_shards(_join_bucket, buckets, {name: bucket.files for name, bucket in buckets.items()})


def _same_buckets(work: Workspace[PapersSettings], name: str, like: list[Path]) -> list[Path]:
    found = work.dataset(name).files()
    if [path.name for path in found] != [path.name for path in like]:
        raise BadInput(
            f"stage papers: {name} has {len(found)} buckets, paper_records has {len(like)}; "
            "build both with the same number of buckets"
        )
    return found


def _join_bucket(shard: Shard, bucket: _Bucket) -> None:
    with connect(bucket.budget, shard.name) as db:
        db.read_parquet(str(bucket.records)).create_view("records")
        db.read_parquet(str(bucket.abstracts)).create_view("abstracts")
        db.register("full_texts", _full_text_signs(bucket.full_texts))
        db.register("dates", _resolve_dates(db))
        shard.counts.notes = _count_orphans(db)
        rows = _tallied(tables(db.sql(JOIN)), shard.counts)
        shard.counts.kept = write_table(shard.file(f"{shard.name}.parquet"), PAPERS, rows)
        shard.counts.read = shard.counts.kept


def _full_text_signs(path: Path | None) -> pa.Table:
    if path is None:
        return FULL_TEXTS.empty().select(["corpus_id", "abstract", "paragraphs"])
    with pq.ParquetFile(path) as file:
        return file.read(columns=SIGNS)


def _resolve_dates(db: duckdb.DuckDBPyConnection) -> pa.Table:
    """Each distinct (date, year) of the bucket, resolved once: there are few, whatever the number of papers."""
    pairs = db.sql("SELECT DISTINCT publication_date, year FROM records").fetchall()
    rows = [(given, year, *resolve_date(given, year)) for given, year in pairs]
    return pa.table(
        {field.name: pa.array([row[i] for row in rows], field.type) for i, field in enumerate(DATES)}, schema=DATES
    )


def _count_orphans(db: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """How many abstracts and full texts belong to no paper of the bucket."""

    def count(name: str) -> int:
        return len(db.sql(f"SELECT corpus_id FROM {name} ANTI JOIN records USING (corpus_id)"))

    return {f"{name}_without_paper": count(name) for name in ("abstracts", "full_texts")}


def _tallied(rows: Iterator[pa.Table], counts: Counts) -> Iterator[pa.Table]:
    """Passes the papers' columns on and adds up what is to be reported of them."""
    for table in rows:
        found = {name: int(table[name].to_numpy().sum()) for name in NOTED}
        found["with_abstract"] = len(table) - table["abstract"].null_count
        for pair in table["date_precision"].value_counts().to_pylist():
            found[f"date_{pair['values']}"] = pair["counts"]
        counts.add(Counts(notes=dict[str, float](found)))
        yield table.select(PAPERS.arrow.names)
