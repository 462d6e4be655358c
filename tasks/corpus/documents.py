"""Stage `documents`: which papers can be retrieved.

What belongs here: the corpus rule, the limit for development. What does not: leakage (filtered when searching).

Scale: bucket by bucket, as `papers`; only a limit needs a look at the ids of all papers before.
"""

from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from schemas.settings import CorpusRule, Settings
from schemas.tables.documents import DOCUMENTS
from tasks.corpus.engine import Budget, budget_of, connect, tables
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class Rule(NamedTuple):
    """Which papers are documents, in SQL, and the name under which the others are counted."""

    condition: str
    dropped: str


RULES: dict[CorpusRule, Rule] = {
    "full_text": Rule("has_full_text", "no_full_text"),
    "abstract": Rule("title IS NOT NULL AND abstract IS NOT NULL", "no_title_or_abstract"),
}
CHOICE = """
    WITH eligible AS (SELECT corpus_id FROM papers WHERE {condition}),
    cited AS (FROM eligible SEMI JOIN cited_papers ON corpus_id = cited_id),
    others AS (FROM eligible ANTI JOIN cited_papers ON corpus_id = cited_id)
    FROM cited UNION ALL (
        FROM others ORDER BY md5(corpus_id::VARCHAR), corpus_id
        LIMIT greatest(0, {limit} - (SELECT count(*) FROM cited))
    )
"""
ROWS = """
    SELECT corpus_id, title, abstract, date, fields_of_study FROM {source} ORDER BY corpus_id
"""


class DocumentSettings(Settings):
    """Which papers are documents."""

    corpus: CorpusRule = Field(default="full_text", description="Papers with full text, or with title and abstract.")
    limit: int | None = Field(
        default=None, ge=1, description="Development only: all cited documents, and others by hash up to this many."
    )


class _Bucket(NamedTuple):
    papers: Path
    chosen: Path | None
    rule: Rule
    budget: Budget


@stage("documents", version=1, settings=DocumentSettings)
def documents(work: Workspace[DocumentSettings]) -> None:
    """The corpus, in as many buckets as `papers`; surveys stay in it, since the filter keeps them out of every search.

    With a limit, every document that an accepted survey cites is kept, so that topics lose nothing, and others join in
    ascending order of a hash of their id.

    Deviates: the paper's corpus has full texts only (section 3.1); `abstract` is for releases with too few of them.
    """
    files = work.dataset("papers").files()
    chosen = _choose(work) if work.settings.limit else None
    rule = RULES[work.settings.corpus]
    budget = budget_of(work, connections=min(work.processes, len(files)))
    buckets = {path.stem: _Bucket(path, chosen, rule, budget) for path in files}
    alone = {} if chosen else {path.stem: [path] for path in files}  # what a limit leaves depends on all papers
    work.map_shards(_select_bucket, buckets, alone)


def _choose(work: Workspace[DocumentSettings]) -> Path:
    """Writes the ids that the limit leaves."""
    path = work.scratch / "chosen.parquet"
    with connect(budget_of(work), "choice") as db:
        work.dataset("papers").relation(db).create_view("papers")
        cited = work.dataset("references").relation(db).filter("cited_id IS NOT NULL")
        cited.select("cited_id").distinct().create("cited_papers")
        condition = RULES[work.settings.corpus].condition
        db.sql(CHOICE.format(condition=condition, limit=work.settings.limit)).write_parquet(str(path))
    return path


def _select_bucket(shard: Shard, bucket: _Bucket) -> None:
    with connect(bucket.budget, shard.name) as db:
        papers = db.read_parquet(str(bucket.papers))
        eligible = papers.filter(bucket.rule.condition)
        eligible.create_view("eligible")
        source = "eligible"
        if bucket.chosen:
            db.read_parquet(str(bucket.chosen)).create_view("chosen")
            source = "eligible SEMI JOIN chosen USING (corpus_id)"
        rows = tables(db.sql(ROWS.format(source=source)))
        counts = shard.counts
        counts.kept = write_table(shard.file(f"{shard.name}.parquet"), DOCUMENTS, rows)
        counts.read = len(papers)
        counts.dropped = {bucket.rule.dropped: counts.read - len(eligible)}
        if bucket.chosen:
            counts.dropped["limit"] = len(eligible) - counts.kept
