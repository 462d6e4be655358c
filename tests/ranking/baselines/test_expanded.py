"""Expansion by the first hits: RM3's and Rocchio's weights by hand, and queries without survey words."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from schemas.identifiers import CorpusId
from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import subject_query
from tasks.ranking.baseline import Kit
from tasks.ranking.baselines.expanded import expanded, expanded_diverse, expanded_subject
from tasks.ranking.expansion.feedback import PUBLISHED, ExpansionSettings, rm3_terms, rocchio_vector
from tests.ranking.baselines.conftest import RETRIEVERS, Shelf

TOPIC = Topic(CorpusId(999), "Seabird migration: a survey", date(2020, 1, 1))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Papers 1 and 2 share the title's words; 3 and 4 only those of 1 and 2; the others are noise with "the"."""
    texts: dict[int, tuple[str, str | None]] = {
        1: ("Seabird migration", "petrel the petrel flyway"),
        2: ("Seabird migration", "petrel"),
        3: ("Petrel flyway", None),
        4: ("Flyway", "petrel"),
    }
    texts |= {n: (f"bond{n} the", "market the") for n in range(100, 160)}
    return Shelf(Path(tmp_path_factory.mktemp("shelf")), texts)


def test_rm3_mixes_the_query_with_the_relevance_model(shelf: Shelf) -> None:
    """Hits with scores 3 and 1: shares 3/4 and 1/4, over 6 and 3 terms; "the" is in too many documents to be added."""
    desk = shelf.desk(TOPIC, "bm25")
    settings = ExpansionSettings(terms=3, original=0.4)
    found = rm3_terms(desk, "seabird gulls", [Hit(CorpusId(1), 3.0), Hit(CorpusId(2), 1.0)], settings).weights
    petrel, seabird = 3 / 4 * 2 / 6 + 1 / 4 / 3, 3 / 4 / 6 + 1 / 4 / 3
    norm = petrel + 2 * seabird
    assert dict(found) == pytest.approx(
        {
            "petrel": 0.6 * petrel / norm,
            "migration": 0.6 * seabird / norm,
            "seabird": 0.6 * seabird / norm + 0.2,
            "gulls": 0.2,
        }
    )
    assert sum(found.values()) == pytest.approx(1)


def test_rocchio_moves_the_query_to_the_centroid(shelf: Shelf) -> None:
    desk = shelf.desk(TOPIC, "dense")
    hits = [Hit(CorpusId(1), 0.9), Hit(CorpusId(3), 0.8)]
    found = rocchio_vector(desk, "seabird", hits, PUBLISHED).values
    expected = desk.embed(["seabird"])[0] + 0.75 * desk.vectors([1, 3]).mean(axis=0)
    assert found == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_papers_are_found_that_share_no_word_with_the_title(shelf: Shelf, retriever: str) -> None:
    found = expanded(TOPIC, Kit(shelf.desk(TOPIC, retriever), 4, seed=0))
    ids = {hit.corpus_id for hit in found.hits}
    assert len(found.hits) == 4 and ids >= {1, 2}
    if retriever != "dense":  # the word vectors of the tests do not know that words go together
        assert ids == {1, 2, 3, 4}


def test_each_group_of_first_hits_is_a_search_of_its_own(tmp_path: Path) -> None:
    """Twenty papers on seabirds speak of petrels, five of terns: the terns' papers get a search of their own."""
    texts: dict[int, tuple[str, str | None]] = dict.fromkeys(range(1, 21), ("Seabird migration", "petrel flyway"))
    texts |= dict.fromkeys(range(21, 26), ("Seabird migration", "tern colony"))
    texts |= {40: ("Tern colony", "tern"), 41: ("Petrel flyway", "petrel")}
    texts |= {n: (f"bond{n} the", "market the") for n in range(100, 400)}
    desk = Shelf(tmp_path, texts).desk(TOPIC, "bm25")
    found = expanded_diverse(TOPIC, Kit(desk, 30, seed=0))
    expansions = [search.query for search in desk.searches[1:]]
    assert 2 <= len(expansions) <= 5
    assert any("tern^" in query and "petrel^" not in query for query in expansions)
    assert {40, 41} <= {hit.corpus_id for hit in found.hits}


def test_the_subject_alone_is_searched_and_expanded(shelf: Shelf) -> None:
    desk = shelf.desk(TOPIC, "bm25")
    expanded_subject(TOPIC, Kit(desk, 4, seed=0))
    assert desk.searches[0].query == "seabird migration"
    assert "survey" not in desk.searches[1].query


@pytest.mark.parametrize(
    ("title", "subject"),
    [
        ("A Comprehensive Survey of Graph Neural Networks", "graph neural networks"),
        ("Anomaly Detection: A Survey", "anomaly detection"),
        ("Recent Advances in Deep Learning: An Overview", "deep learning"),
        ("BERT and its Kin: A Systematic Literature Review on Language Models", "bert and its kin: language models"),
        ("Federated Learning: Challenges, Opportunities and a Survey", "federated learning"),
        ("Surveying the Sky", "surveying the sky"),
        ("A Survey", "a survey"),
        ("", ""),
    ],
)
def test_survey_words_are_left_out_of_a_query(title: str, subject: str) -> None:
    assert subject_query(title) == subject
