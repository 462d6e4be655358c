"""Exports of parts: other libraries load them back to our counts and scores, and judgments of the private part stay."""

import importlib
import json
import sys
from pathlib import Path

import polars as pl
import pytest
import pytrec_eval

from schemas.errors import UsageError
from schemas.tables.paperqa_questions import PAPERQA_ANNOTATIONS, PAPERQA_QUESTIONS
from tasks.exports.edition import Edition
from tasks.exports.exporter import all_exporters, find_exporter, require_parts
from tasks.exports.part import Part
from tasks.metrics.ranking import evaluate_run
from tasks.store.store import Store
from tests.exports.conftest import HOSTILE, TAG, Small
from tests.published import publish, publish_documents, publish_surveys

PARTED = sorted(name for name, found in all_exporters().items() if found.parts)
UUIDS = [f"{number:08x}-0000-0000-0000-000000000000" for number in range(20)]
SECRET = "the-hidden-reference"
ABSTRACT = "An abstract that is not ours to give."


@pytest.fixture
def datasets(small: Small, store: Store) -> dict[str, object]:
    asked = [
        {"uuid": uuid, "question": "Why?", "answer_format": "text", "anchor_pdf": [], "conference": ["acl2023"]}
        for uuid in UUIDS
    ]
    hidden = [
        {
            "uuid": uuid,
            "tags": [],
            "reference_pdf": [SECRET],
            "evaluator": "{}",
            "reasoning_steps": [],
            "annotator": None,
        }
        for uuid in UUIDS
    ]
    tables = {"part": (PAPERQA_QUESTIONS, asked), "annotations": (PAPERQA_ANNOTATIONS, hidden)}
    corpus = {
        "documents": publish_documents(store, dict.fromkeys(range(200), (HOSTILE, ABSTRACT)), late=[3]),
        "surveys": publish_surveys(store, small.qrels),
        "airqa/questions": publish(store, "paperqa_questions", tables),
    }
    return {**small.edition.datasets, **{slot: store.open(ref) for slot, ref in corpus.items()}}


def opened(datasets: dict[str, object], split: str = "all", **options: object) -> Edition:
    return Edition("small", datasets, Part.model_validate({"split": split, **options}))  # pyright: ignore[reportArgumentType]


def texts(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file())


def scores(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100", "recip_rank"}).evaluate(run)


def require_our_scores(edition: Edition, qrels: dict[str, dict[str, int]]) -> None:
    """Compares scores of our run with judgments as another library read them with our own scores."""
    ours = {topic: edition.run(TAG)[topic] for topic in edition.run(TAG)}
    expected = evaluate_run(edition.qrels(), ours)["per_topic"]
    found = scores(qrels, {str(topic): {str(d): score for d, score in hits} for topic, hits in ours.items()})
    assert found
    for topic, values in found.items():
        assert values == pytest.approx({name: expected[int(topic)][name] for name in values})


def test_ir_datasets_loads_its_export(
    datasets: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    edition = opened(datasets, "public", texts=True)
    find_exporter("ir_datasets").write(edition, tmp_path / "export")
    monkeypatch.syspath_prepend(tmp_path / "export")
    module = "research_arena"  # what the export brings along
    monkeypatch.delitem(sys.modules, module, raising=False)
    importlib.import_module(module)
    import ir_datasets

    found = ir_datasets.load("research-arena/small/public")
    documents = {document.doc_id: document for document in found.docs_iter()}
    assert sorted(map(int, documents)) == list(range(200))
    assert (documents["3"].title, documents["3"].date) == (HOSTILE, "2020-01-01")
    assert {int(i) for i, document in documents.items() if document.survey} == {1, 2, 3, 4, 5}
    queries = list(found.queries_iter())
    assert [int(query.query_id) for query in queries] == edition.topics()["topic_id"].to_list()
    assert {(query.text, query.horizon) for query in queries} == {(HOSTILE, "2020-01-01")}
    qrels: dict[str, dict[str, int]] = {}
    for judged in found.qrels_iter():
        qrels.setdefault(judged.query_id, {})[judged.doc_id] = judged.relevance
    assert sum(map(len, qrels.values())) == len(edition.judgments()) > 0
    require_our_scores(edition, qrels)


def test_beir_loads_its_export(datasets: dict[str, object], tmp_path: Path) -> None:
    from beir.datasets.data_loader import GenericDataLoader

    edition = opened(datasets, "public", texts=True)
    find_exporter("beir").write(edition, tmp_path / "out")
    corpus, queries, qrels = GenericDataLoader(str(tmp_path / "out")).load(split="test")
    assert len(corpus) == 200
    assert corpus["7"] == {"title": HOSTILE, "text": ABSTRACT}
    assert {int(topic): title for topic, title in queries.items()} == dict(
        edition.topics().select("topic_id", "title").iter_rows()
    )
    assert sum(map(len, qrels.values())) == len(edition.judgments()) > 0
    require_our_scores(edition, qrels)


def test_parquet_files_hold_the_same_rows(datasets: dict[str, object], tmp_path: Path) -> None:
    edition = opened(datasets, "public", texts=True)
    find_exporter("hf").write(edition, tmp_path / "out")
    assert pl.read_parquet(tmp_path / "out" / "qrels.parquet").equals(edition.judgments().cast({"relevance": pl.Int8}))
    documents = pl.read_parquet(tmp_path / "out" / "documents.parquet")
    assert documents.filter(corpus_id=3).rows() == [(3, True, HOSTILE, ABSTRACT, "2020-01-01")]
    assert len(documents) == 200
    topics = pl.read_parquet(tmp_path / "out" / "topics.parquet")
    assert topics["topic_id"].to_list() == edition.topics()["topic_id"].to_list()
    assert "best first" in topics["instructions"][0]


def test_public_and_private_topics_are_all_topics_and_no_topic_is_both(datasets: dict[str, object]) -> None:
    parts = [opened(datasets, split).topics()["topic_id"].to_list() for split in ("public", "private")]
    assert sorted([*parts[0], *parts[1]]) == opened(datasets).topics()["topic_id"].to_list()
    other = opened(datasets, "public", split_seed=7).topics()["topic_id"].to_list()
    assert other != parts[0], "another seed draws others"
    many = Part(split="private", private_share=0.3)
    assert 270 < sum(map(many.holds, range(1000))) < 330
    assert many.holds(123456) == many.holds("123456")


@pytest.mark.parametrize("name", PARTED)
def test_the_private_part_has_topics_and_questions_and_nothing_that_tells_an_answer(
    name: str, datasets: dict[str, object], tmp_path: Path
) -> None:
    """Contract of every format that writes parts."""
    edition = opened(datasets, "private", texts=True)
    written = find_exporter(name).write(edition, tmp_path / "out")
    names = {str(path.relative_to(tmp_path / "out")) for path in written}
    assert not [path for path in names if "qrels" in path or path.startswith("runs")], names
    assert SECRET not in texts(tmp_path / "out")
    for path in written:
        if path.suffix in (".jsonl", ".tsv") and path.stem in ("queries", "topics"):
            lines = path.read_text().splitlines()
            assert len(lines) == len(edition.topics()) > 0
    with pytest.raises(UsageError, match="not for export"):
        edition.qrels()


@pytest.mark.parametrize("name", PARTED)
def test_the_public_part_holds_nothing_of_private_topics(
    name: str, datasets: dict[str, object], tmp_path: Path
) -> None:
    """Contract of every format that writes parts."""
    edition, private = opened(datasets, "public"), set(opened(datasets, "private").topics()["topic_id"])
    written = find_exporter(name).write(edition, tmp_path / "out")
    assert private
    for path in written:
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            found = set(frame["topic_id"]) if "topic_id" in frame.columns else set()
        elif "qrels" in str(path) or path.parent.name == "runs":
            cells = [line.split()[0] for line in path.read_text().splitlines()]
            found = {int(cell) for cell in cells if cell.isdigit()}
            assert found
        else:
            records = [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else []
            found = {int(str(r.get("topic_id") or r.get("query_id") or 0)) for r in records}
            found |= {int(r["_id"]) for r in records if "instructions" in r.get("metadata", {})}
        assert not found & private, path
    assert ABSTRACT not in texts(tmp_path / "out"), "texts are written only when that is wished"


@pytest.mark.parametrize("name", ["beir", "hf", "ir_datasets"])
def test_an_edition_of_questions_alone_is_written_as_systems_see_it(
    name: str, datasets: dict[str, object], tmp_path: Path
) -> None:
    edition = Edition("airqa", {"airqa/questions": datasets["airqa/questions"]}, Part(split="public"))  # pyright: ignore[reportArgumentType]
    find_exporter(name).write(edition, tmp_path / "out")
    if name == "hf":
        found = pl.read_parquet(tmp_path / "out" / "questions.parquet").to_dicts()
    else:
        found = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert [record["uuid"] for record in found] == [uuid for uuid in UUIDS if edition.part.holds(uuid)]
    assert 0 < len(found) < len(UUIDS)
    assert set(found[0]) == {"uuid", "question", "answer_format", "anchor_pdf", "conference", "instructions"}
    assert SECRET not in texts(tmp_path / "out")


def test_a_format_that_writes_whole_editions_refuses_a_part() -> None:
    with pytest.raises(UsageError, match="parquet writes whole editions alone; --split goes with: beir, hf"):
        require_parts("parquet", Part(split="public"))
    require_parts("parquet", Part())
    require_parts("trec", Part(split="private"))
