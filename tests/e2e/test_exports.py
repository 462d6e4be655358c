"""Libraries that take seconds to import load an export back: Hugging Face's datasets, and Croissant's mlcroissant."""

import json
from pathlib import Path

import pytest

from tasks.exports.exporter import find_exporter
from tests.exports.conftest import Small, judged, small, store  # noqa: F401 (fixtures)
from tests.exports.test_public import datasets, opened, require_our_scores  # noqa: F401 (fixtures)

pytestmark = pytest.mark.e2e


def test_datasets_loads_every_table(datasets: dict[str, object], tmp_path: Path) -> None:  # noqa: F811
    from datasets import load_dataset

    edition = opened(datasets, "public", texts=True)
    find_exporter("hf").write(edition, tmp_path / "export")

    def load(name: str):
        return load_dataset(str(tmp_path / "export"), name, split="test", cache_dir=str(tmp_path / "cache"))

    assert load("documents").num_rows == 200
    assert list(load("topics")["topic_id"]) == edition.topics()["topic_id"].to_list()
    qrels: dict[str, dict[str, int]] = {}
    for row in load("qrels"):
        qrels.setdefault(str(row["topic_id"]), {})[str(row["corpus_id"])] = row["relevance"]
    assert sum(map(len, qrels.values())) == len(edition.judgments())
    require_our_scores(edition, qrels)
    assert load("questions").num_rows == sum(
        map(edition.part.holds, edition.dataset("airqa/questions").table()["uuid"].to_pylist())
    )


def test_croissant_metadata_is_valid_and_leads_to_the_rows(datasets: dict[str, object], tmp_path: Path) -> None:  # noqa: F811
    import mlcroissant

    edition = opened(datasets, "public")
    find_exporter("hf").write(edition, tmp_path / "export")
    described = mlcroissant.Dataset(jsonld=tmp_path / "export" / "croissant.json")
    assert not described.metadata.issues.errors
    assert {str(warning).count("datePublished") for warning in described.metadata.issues.warnings} <= {1}
    rows = list(described.records("qrels"))
    found = [(row["qrels/topic_id"], row["qrels/corpus_id"], row["qrels/relevance"]) for row in rows]
    assert found == edition.judgments().rows()
    assert len(list(described.records("documents"))) == 200
    names = {record["name"] for record in json.loads((tmp_path / "export" / "croissant.json").read_text())["recordSet"]}
    assert names == {"topics", "qrels", "documents", "questions"}
