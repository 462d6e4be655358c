"""Exports: reference tools read the files back to our own scores, and no title or tag can break a file."""

from datetime import date
from pathlib import Path

import ir_measures
import polars as pl
import pyarrow.parquet as pq
import pytest
import pytrec_eval

from schemas.errors import BadInput, UsageError
from schemas.service import NewRun, Quotas
from schemas.submission import System
from schemas.tables.papers import PAPERS
from schemas.tables.references import REFERENCES
from tasks.exports.edition import Edition
from tasks.exports.exporter import all_exporters, find_exporter
from tasks.metrics.ranking import evaluate_run
from tasks.service.ledger import Ledger
from tasks.store.dataset import Dataset
from tasks.store.store import Store
from tests.exports.conftest import HOSTILE, JUDGED, TAG, Small, publish_run
from tests.published import publish, publish_documents, publish_surveys


@pytest.fixture
def whole(small: Small, judged: Dataset, store: Store) -> Edition:
    """An edition that every format can write."""
    blank = {column.name: None if column.nullable else [] for column in PAPERS.arrow}
    known = {"has_full_text": False, "date_precision": "day"}
    papers = [blank | known | {"corpus_id": topic} for topic in small.qrels]
    cited = [{"survey_id": topic, "cited_id": i} for topic, labels in small.qrels.items() for i in sorted(labels)]
    linked = {
        "entries": 1,
        "mentions": 1,
        "in_bibliography": True,
        "in_citations": True,
        "linking": "both",
        "used": True,
    }
    references = [row | linked | {"is_influential": False} for row in cited]
    corpus = {
        "papers": publish(store, "papers", {"part": (PAPERS, papers)}),
        "references": publish(store, "references", {"part": (REFERENCES, references)}),
        "documents": publish_documents(store, dict.fromkeys(range(200), (HOSTILE, HOSTILE))),
        "surveys": publish_surveys(store, small.qrels),
    }
    opened = {slot: store.open(ref) for slot, ref in corpus.items()}
    system = System(name="agent", version="1")
    ledger = Ledger(store.root, Quotas())
    ledger.open_run(NewRun(edition="whole", task="discovery", system=system), [*map(str, small.qrels)]).result()
    ledger.close()
    return Edition("whole", small.edition.datasets | {JUDGED: judged} | opened)


def test_an_edition_from_before_links_had_a_source_can_be_exported(whole: Edition, tmp_path: Path) -> None:
    find_exporter("researcharena").write(whole, tmp_path / "new")
    for path in whole.dataset("references").files():
        path.chmod(0o600)
        pl.read_parquet(path).drop("used").write_parquet(path)
    find_exporter("researcharena").write(whole, tmp_path / "old")
    assert (tmp_path / "old/survey.jsonl").read_bytes() == (tmp_path / "new/survey.jsonl").read_bytes()


def test_trec_files_score_as_the_run_does(small: Small, tmp_path: Path) -> None:
    find_exporter("trec").write(small.edition, tmp_path)
    qrels_path, run_path = tmp_path / "qrels.txt", tmp_path / "runs" / f"{TAG}.txt"
    expected = evaluate_run(small.qrels, {topic: list(hits.items()) for topic, hits in small.scores.items()})
    with qrels_path.open() as judged, run_path.open() as ranked:
        read_qrels, read_run = pytrec_eval.parse_qrel(judged), pytrec_eval.parse_run(ranked)
    names = {"P.10,100", "recall.10,100", "ndcg_cut.10,30,100", "recip_rank"}
    found = pytrec_eval.RelevanceEvaluator(read_qrels, names).evaluate(read_run)
    assert set(found) == {str(topic) for topic in expected["per_topic"]}
    for topic, values in expected["per_topic"].items():
        assert found[str(topic)] == pytest.approx(values, abs=1e-9)
    measures = [ir_measures.R @ 100, ir_measures.nDCG @ 10, ir_measures.RR]
    means = ir_measures.calc_aggregate(
        measures,
        list(ir_measures.read_trec_qrels(str(qrels_path))),
        list(ir_measures.read_trec_run(str(run_path))),
    )
    assert expected["mean_all"] is not None
    ours = [expected["mean_all"][name] for name in ("recall_100", "ndcg_cut_10", "recip_rank")]
    assert [means[measure] for measure in measures] == pytest.approx(ours)


def test_trec_files_hold_every_label_hit_and_title(small: Small, tmp_path: Path) -> None:
    find_exporter("trec").write(small.edition, tmp_path)
    qrels = [line.split(" ") for line in (tmp_path / "qrels.txt").read_text().splitlines()]
    assert {(int(t), int(d)): int(label) for t, _, d, label in qrels} == {
        (topic, document): label for topic, labels in small.qrels.items() for document, label in labels.items()
    }
    hits = [line.split(" ") for line in (tmp_path / "runs" / f"{TAG}.txt").read_text().splitlines()]
    assert {(int(t), int(d)): float(score) for t, _, d, _, score, _ in hits} == {
        (topic, document): score for topic, scores in small.scores.items() for document, score in scores.items()
    }, "scores keep every digit"
    assert {(q0, tag) for _, q0, _, _, _, tag in hits} == {("Q0", TAG)}
    first = [(int(rank), float(score)) for topic, _, _, rank, score, _ in hits if topic == "1"]
    assert [rank for rank, _ in first] == [*range(1, 101)]
    assert first == sorted(first, key=lambda hit: -hit[1])
    topics = (tmp_path / "topics.tsv").read_text().splitlines()
    assert topics == [f'{topic}\tLine breaks, tabs, feeds and "quotes"' for topic in small.qrels]


def test_parquet_copies_hold_the_tables_and_their_descriptions(small: Small, tmp_path: Path) -> None:
    find_exporter("parquet").write(small.edition, tmp_path)
    run, topics = small.edition.dataset(f"run/{TAG}"), small.edition.dataset("topics")
    for name, dataset, prefix in ((f"runs/{TAG}", run, "part"), ("topics", topics, "part"), ("qrels", topics, "qrels")):
        copy = pq.read_table(tmp_path / f"{name}.parquet")
        assert copy.equals(dataset.table(prefix), check_metadata=True), name
        assert copy.schema.field(0).metadata[b"meaning"]
    copied = pl.read_parquet(tmp_path / "topics.parquet")
    assert copied["title"][0] == HOSTILE
    assert copied["horizon"][0] == date(2020, 1, 1)


def test_search_files_hold_levels_and_places_by_safe_keys(judged: Dataset, tmp_path: Path) -> None:
    find_exporter("search_trec").write(Edition("searched", {JUDGED: judged}), tmp_path)
    folder = tmp_path / "some" / "paper_lantern+m"
    assert (folder / "qrels.txt").read_text().splitlines() == [
        "some/q%201 0 doi:10.1/a%20b 5",
        "some/q2 0 doi:10.1/c 0",
    ], "a paper without a valid judgment is no label"
    assert (folder / "runs" / "bm25.abstract.txt").read_text().splitlines() == [
        "some/q%201 Q0 doi:10.1/a%20b 1 -1 bm25.abstract",
        "some/q%201 Q0 id:x 2 -2 bm25.abstract",
        "some/q2 Q0 doi:10.1/c 3 -3 bm25.abstract",
    ]
    read = list(ir_measures.read_trec_run(str(folder / "runs" / "bm25.abstract.txt")))
    assert [hit.doc_id for hit in read if hit.query_id == "some/q%201"] == ["doi:10.1/a%20b", "id:x"]


@pytest.mark.parametrize("name", sorted(all_exporters()))
def test_every_exporter_stays_in_its_folder_and_repeats_its_bytes(name: str, whole: Edition, tmp_path: Path) -> None:
    """Contract of every exporter."""
    contents: list[dict[Path, bytes]] = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        written = find_exporter(name).write(whole, folder)
        assert sorted(written) == sorted(path for path in folder.rglob("*") if path.is_file())
        contents.append({path.relative_to(folder): path.read_bytes() for path in written})
    assert contents[0] == contents[1]
    assert contents[0]


@pytest.mark.parametrize("name", sorted(all_exporters()))
def test_an_edition_that_lacks_what_a_format_needs_is_refused(name: str, tmp_path: Path) -> None:
    """Contract of every exporter."""
    with pytest.raises(UsageError, match="edition empty has no"):
        find_exporter(name).write(Edition("empty", {}), tmp_path)


@pytest.mark.parametrize("name", ["trec", "parquet"])
def test_an_edition_without_runs_has_its_topics_written(name: str, small: Small, tmp_path: Path) -> None:
    written = find_exporter(name).write(Edition("new", {"topics": small.edition.dataset("topics")}), tmp_path)
    assert {path.stem for path in written} == {"topics", "qrels"}


@pytest.mark.parametrize("name", ["trec", "parquet"])
@pytest.mark.parametrize("tag", ["../../etc/passwd", "two words", "line\nbreak", ".hidden", ""])
def test_a_tag_that_is_no_file_name_is_refused(name: str, tag: str, small: Small, store: Store, tmp_path: Path) -> None:
    bad = Edition("bad", small.edition.datasets | {f"run/{tag}": store.open(publish_run(store, tag, {}))})
    with pytest.raises(BadInput, match="file name"):
        find_exporter(name).write(bad, tmp_path / "out")


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"there are: beir, hf, .*, search_trec, served_calls, trec"):
        find_exporter("csv")
