"""BM25 beside bm25s on abstracts: same terms, same filter; only bm25s keeps document lengths exactly."""

import gzip
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import orjson
import pytest

from schemas.identifiers import CorpusId
from schemas.topic import Topic
from tasks.demo.release import SyntheticSettings, write_release
from tasks.index.analysis import analyze
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.documents import load_catalogue
from tasks.retrieval.retriever import Allowed
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents

K = 100


@pytest.mark.long
def test_top_100_of_real_papers_are_those_of_bm25s(shared: Path, tmp_path: Path) -> None:
    release = shared / "data" / "s2" / "2026-01-06"
    assert mean_overlap(release, tmp_path, documents=6000, queries=50) > 0.95


def test_top_100_of_invented_papers_are_those_of_bm25s(tmp_path: Path) -> None:
    settings = SyntheticSettings(papers=2_000, broken=False)
    write_release(tmp_path / "releases", settings)
    assert mean_overlap(tmp_path / "releases" / settings.release, tmp_path / "store", 2_000, queries=20) > 0.95


def mean_overlap(release: Path, root: Path, documents: int, queries: int) -> float:
    """Share of bm25s's filtered top 100 that ours has, over titles with `survey` in them."""
    abstracts = {row["corpusid"]: row["abstract"] for row in islice(lines(release / "abstracts"), documents)}
    papers = {row["corpusid"]: row for row in lines(release / "papers")}
    topics = [
        Topic(CorpusId(i), row["title"], date(row["year"], 12, 31))
        for i, row in papers.items()
        if "survey" in row["title"].lower() and row["year"]
    ]
    corpus = Corpus(root)
    rows = [
        {"corpus_id": i, "abstract": text, "date": date(year, 12, 31) if (year := papers[i]["year"]) else None}
        for i, text in abstracts.items()
    ]
    given = give_documents(corpus, rows, buckets=4)
    surveys = corpus.store.open(corpus.accepted(*(topic.topic_id for topic in topics)))
    catalogue = load_catalogue(corpus.store.open(given), surveys)
    ours = Bm25Retriever(Bm25Index(corpus.build(bm25, Bm25Settings(field="abstract"), documents=given)))
    theirs = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    theirs.index([analyze(abstracts[i]) for i in catalogue.ids.tolist()], show_progress=False)
    shares: list[float] = []
    for topic in topics[:: max(1, len(topics) // queries)]:
        allowed = Allowed.of(catalogue, topic)
        scores = theirs.get_scores(analyze(topic.title))
        kept = allowed.judge(np.arange(len(scores))).kept & (scores > 0)
        order = np.lexsort((catalogue.ids[kept], -scores[kept]))
        expected = catalogue.ids[kept][order][:K].tolist()
        found = [hit.corpus_id for hit in ours.search(topic.title, K, allowed).hits]
        assert len(found) == len(expected)
        shares.append(len(set(found) & set(expected)) / max(len(expected), 1))
    return float(np.mean(shares))


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        with gzip.open(path) as handle:
            yield from map(orjson.loads, handle)
