"""The record shapes in which the authors of ResearchArena publish their data: surveys, public corpus, full texts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from schemas.mindmap import VIRTUAL_ROOT, Tree, parse_tree
from tasks.exports.edition import Edition
from tasks.exports.exporter import exporter, write_lines
from tasks.index.fields import Bucket, field_texts
from tasks.store.dataset import Dataset
from tasks.store.parquet import ParquetReader

ROWS = 4096
"""Documents in memory at a time."""

PAGE = "https://api.semanticscholar.org/CorpusID:{}"


@exporter("researcharena", "The records of the ResearchArena authors: surveys with references and mind-maps, corpus.")
class ResearchArenaExporter:
    """Writes `survey.jsonl`, `public_<n>.jsonl`, `corpus_<n>.jsonl`, `queries.tsv` and `qrels.txt`.

    A survey is an evaluated topic. Its `references` are those that are documents; `qrels.txt` holds what the leakage
    rules leave of them. `corpus_<n>` are written where the edition has full texts. One file of each holds one bucket.

    Deviates: the authors do not say which of their documents are surveys beyond those published. A document that is an
    accepted survey and no topic has `"survey": true`, so that a search over the files can leave it out.

    Source: sample records in the repository cxcscmu/ResearchArena.
    """

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths.

        Raises:
            UsageError: The edition has no papers, documents, surveys, references or topics.
        """
        topics = edition.topics()
        qrels = pl.read_parquet(edition.dataset("topics").files("qrels")).sort("topic_id", "corpus_id").iter_rows()
        queries = topics.select("topic_id", "title").iter_rows()
        return [
            write_lines(folder / "survey.jsonl", map(_line, _surveys(edition, topics))),
            write_lines(folder / "queries.tsv", (f"{topic}\t{' '.join(title.split())}" for topic, title in queries)),
            write_lines(folder / "qrels.txt", (f"{topic} 0 {document} {label}" for topic, document, label in qrels)),
            *_write_corpus(edition, set(topics["topic_id"]), folder),
        ]


def _line(record: Mapping[str, Any]) -> str:
    return orjson.dumps(record).decode()


def _surveys(edition: Edition, topics: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yields the record of each topic, in the order of the topics."""
    papers = _papers_of(edition.dataset("papers"), topics["topic_id"])
    cited = _cited_by(edition)
    maps = {}
    if "mindmaps" in edition.datasets:
        maps = dict(pl.read_parquet(edition.dataset("mindmaps").files()).select("topic_id", "tree").iter_rows())
    for topic in topics.iter_rows(named=True):
        paper = papers[topic["topic_id"]]
        references = cited.get(topic["topic_id"], {})
        yield {
            "id": topic["topic_id"],
            "title": topic["title"],
            "abstract": paper["abstract"],
            "publicationDate": _day(topic["horizon"]),
            "referenceCount": str(topic["references"]),
            "semanticSource": paper["url"] or PAGE.format(topic["topic_id"]),
            "externalSource": _external(paper),
            "subjects": _subjects(topic["fields_of_study"]),
            "references": {
                "influential": [cited_id for cited_id, influential in references.items() if influential],
                "relevant": [cited_id for cited_id, influential in references.items() if not influential],
            },
            "typology": dump_typology(parse_tree(maps[topic["topic_id"]])) if topic["topic_id"] in maps else None,
        }


def _papers_of(papers: Dataset, ids: pl.Series) -> dict[int, dict[str, Any]]:
    found = pl.scan_parquet(papers.files()).filter(pl.col("corpus_id").is_in(ids.implode()))
    rows = found.select("corpus_id", "abstract", "url", "doi", "arxiv").collect().iter_rows(named=True)
    return {row["corpus_id"]: row for row in rows}


def _cited_by(edition: Edition) -> dict[int, dict[int, bool]]:
    """Returns by survey the documents that it cites, ascending, and whether each is influential."""
    rows = pl.scan_parquet(edition.dataset("references").files())
    if "used" in rows.collect_schema():  # in editions from before this column every link is used
        rows = rows.filter("used")
    rows = rows.filter(pl.col("cited_id").is_not_null())
    documents = pl.scan_parquet(edition.dataset("documents").files()).select("corpus_id")
    found = rows.join(documents, left_on="cited_id", right_on="corpus_id", how="semi").sort("survey_id", "cited_id")
    cited: dict[int, dict[int, bool]] = {}
    for survey, cited_id, influential in found.select("survey_id", "cited_id", "is_influential").collect().iter_rows():
        cited.setdefault(survey, {})[cited_id] = bool(influential)
    return cited


def _write_corpus(edition: Edition, topics: set[int], folder: Path) -> Iterator[Path]:
    surveys = edition.dataset("surveys").table(columns=["corpus_id", "accepted"]).to_pylist()
    others = {row["corpus_id"] for row in surveys if row["accepted"]} - topics
    texts = edition.dataset("full_texts").files() if "full_texts" in edition.datasets else []
    for place, documents in enumerate(edition.dataset("documents").files()):
        yield write_lines(folder / f"public_{place:02d}.jsonl", map(_line, _public(documents, others)))
        if texts:
            found = field_texts("text", Bucket(documents, texts[place]))
            lines = (_line({"id": text.corpus_id, "text": text.text}) for text in found)
            yield write_lines(folder / f"corpus_{place:08d}.jsonl", lines)


def _public(documents: Path, surveys: set[int]) -> Iterator[dict[str, Any]]:
    with ParquetReader(documents) as file:
        for batch in file.iter_batches(ROWS):
            for row in batch.to_pylist():
                record = {
                    "id": row["corpus_id"],
                    "title": row["title"],
                    "abstract": row["abstract"],
                    "publicationDate": _day(row["date"]),
                    "subjects": _subjects(row["fields_of_study"]),
                }
                yield record | ({"survey": True} if row["corpus_id"] in surveys else {})


def _day(day: Any) -> str | None:
    return day.isoformat() if day else None


def _subjects(fields: Iterable[str]) -> list[str]:
    return ["-".join(field.lower().split()) for field in fields]


def _external(paper: Mapping[str, Any]) -> str | None:
    if paper["doi"]:
        return f"https://doi.org/{paper['doi']}"
    return f"https://arxiv.org/abs/{paper['arxiv']}" if paper["arxiv"] else None


def dump_typology(tree: Tree) -> str:
    """Returns a mind-map as the JSON text of nested objects: a label is a key, and the value of a leaf is null.

    Siblings with equal labels become equal keys, which `parse_mindmap` keeps.
    """

    def members(nodes: list[Tree]) -> str:
        return "{" + ", ".join(f"{json.dumps(n['label'])}: {value(n['children'])}" for n in nodes) + "}"

    def value(nodes: list[Tree]) -> str:
        return members(nodes) if nodes else "null"

    return members(tree["children"] if tree["label"] == VIRTUAL_ROOT else [tree])
