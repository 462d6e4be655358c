"""Exports: reference tools read the files back to our own scores, and titles cannot break a file."""

from datetime import date
from pathlib import Path

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval

from schemas.errors import BadInput, UsageError
from schemas.manifest import Ref
from schemas.settings import Settings
from schemas.tables.runs import OUTCOMES, RUNS
from tasks.exports.exporter import Exported, all_exporters, find_exporter
from tasks.metrics.ranking import evaluate_run
from tasks.store.store import Store
from tests.published import publish, publish_topics, topic_row

HOSTILE = 'Line\nbreaks,\ttabs,\r\nfeeds\x0b\x85\u2028 and "quotes"'


class _Tag(Settings):
    tag: str


def publish_run(store: Store, tag: str, scores: dict[int, dict[int, float]]) -> Ref:
    rows = [
        {"topic_id": topic, "corpus_id": document, "rank": rank, "score": score, "tag": tag}
        for topic, hits in scores.items()
        for rank, (document, score) in enumerate(sorted(hits.items(), key=lambda hit: -hit[1]), 1)
    ]
    return publish(store, "run", {"part": (RUNS, rows), "outcomes": (OUTCOMES, [])}, _Tag(tag=tag))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")


@pytest.fixture
def qrels() -> dict[int, dict[int, int]]:
    generator = np.random.default_rng(1)
    return {t: {int(d): int(generator.integers(1, 3)) for d in generator.choice(200, 30, False)} for t in range(1, 6)}


@pytest.fixture
def scores() -> dict[int, dict[int, float]]:
    """Scores as a dense engine has them: close together; topic 5 has none."""
    generator = np.random.default_rng(2)
    return {
        t: {int(d): float(np.float32(0.7 + generator.random() / 1000)) for d in generator.choice(200, 100, False)}
        for t in range(1, 5)
    }


@pytest.fixture
def exported(store: Store, qrels: dict[int, dict[int, int]], scores: dict[int, dict[int, float]]) -> Exported:
    topics = publish_topics(store, [topic_row(t, HOSTILE) for t in qrels] + [topic_row(9, outcome="no_date")], qrels)
    run = publish_run(store, "title.dense.abstract+minilm", scores)
    return Exported(store.open(topics), (store.open(run),))


def test_trec_files_score_as_the_run_does(
    exported: Exported, qrels: dict[int, dict[int, int]], scores: dict[int, dict[int, float]], tmp_path: Path
) -> None:
    folder = tmp_path / "trec"
    find_exporter("trec").write(exported, folder)
    run_path = folder / "runs" / "title.dense.abstract+minilm.txt"
    expected = evaluate_run(qrels, {topic: list(hits.items()) for topic, hits in scores.items()})
    with (folder / "qrels.txt").open() as judged, run_path.open() as ranked:
        read_qrels, read_run = pytrec_eval.parse_qrel(judged), pytrec_eval.parse_run(ranked)
    names = {"P.10,100", "recall.10,100", "ndcg_cut.10,30,100", "recip_rank"}
    found = pytrec_eval.RelevanceEvaluator(read_qrels, names).evaluate(read_run)
    assert set(found) == {str(topic) for topic in expected["per_topic"]}
    for topic, values in expected["per_topic"].items():
        assert found[str(topic)] == pytest.approx(values, abs=1e-9)
    means = ir_measures.calc_aggregate(
        [ir_measures.R @ 100, ir_measures.nDCG @ 10],
        list(ir_measures.read_trec_qrels(str(folder / "qrels.txt"))),
        list(ir_measures.read_trec_run(str(run_path))),
    )
    assert expected["mean_all"] is not None
    assert means[ir_measures.R @ 100] == pytest.approx(expected["mean_all"]["recall_100"])
    assert means[ir_measures.nDCG @ 10] == pytest.approx(expected["mean_all"]["ndcg_cut_10"])


def test_trec_files_have_their_columns_whatever_a_title_holds(exported: Exported, tmp_path: Path) -> None:
    written = find_exporter("trec").write(exported, tmp_path / "trec")
    columns = {
        path.name: {len(line.split("\t" if path.suffix == ".tsv" else " ")) for line in path.read_text().splitlines()}
        for path in written
    }
    assert columns == {"qrels.txt": {4}, "topics.tsv": {2}, "title.dense.abstract+minilm.txt": {6}}
    topics = (tmp_path / "trec" / "topics.tsv").read_text().splitlines()
    assert topics[0] == '1\tLine breaks, tabs, feeds and "quotes"'
    assert [line.partition("\t")[0] for line in topics] == ["1", "2", "3", "4", "5"]


def test_parquet_copies_hold_the_tables(exported: Exported, tmp_path: Path) -> None:
    find_exporter("parquet").write(exported, tmp_path / "copy")
    (run,) = exported.runs
    assert pl.read_parquet(tmp_path / "copy/runs/title.dense.abstract+minilm.parquet").equals(
        pl.read_parquet(run.files())
    )
    topics = pl.read_parquet(tmp_path / "copy/topics.parquet")
    assert topics["title"][0] == HOSTILE and topics["horizon"][0] == date(2020, 1, 1)
    assert pl.read_parquet(tmp_path / "copy/qrels.parquet").equals(pl.read_parquet(exported.topics.files("qrels")))


@pytest.mark.parametrize("name", sorted(all_exporters()))
def test_every_exporter_stays_in_its_folder_and_repeats_its_bytes(
    name: str, exported: Exported, tmp_path: Path
) -> None:
    """Contract of every exporter."""
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        written = find_exporter(name).write(exported, folder)
        assert sorted(written) == sorted(path for path in folder.rglob("*") if path.is_file())
        contents.append({path.relative_to(folder): path.read_bytes() for path in written})
    assert contents[0] == contents[1] and contents[0]


def test_exporters_without_runs_write_the_topics(exported: Exported, tmp_path: Path) -> None:
    for name in all_exporters():
        assert find_exporter(name).write(Exported(exported.topics), tmp_path / name)


@pytest.mark.parametrize("tag", ["../../etc/passwd", "two words", "line\nbreak", ".hidden", ""])
def test_a_tag_that_is_no_file_name_is_refused(tag: str, exported: Exported, store: Store, tmp_path: Path) -> None:
    bad = Exported(exported.topics, (store.open(publish_run(store, tag, {})),))
    for name in all_exporters():
        with pytest.raises(BadInput, match="file name"):
            find_exporter(name).write(bad, tmp_path / "out")


def test_two_runs_of_one_tag_and_unknown_formats_are_refused(exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two runs are tagged"):
        find_exporter("trec").write(Exported(exported.topics, exported.runs * 2), tmp_path)
    with pytest.raises(UsageError, match="parquet, trec"):
        find_exporter("csv")
