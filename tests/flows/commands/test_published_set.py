"""A set in the authors' form: exported, imported and run again, an edition gives the same judgments and measures."""

import json
from pathlib import Path

import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline
from schemas.errors import BadInput, ReleaseError
from schemas.mindmap import parse_mindmap, parse_tree
from schemas.settings import CorpusSettings, IndexSettings, RunSettings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.exports.edition import Edition, open_edition
from tasks.exports.exporter import find_exporter
from tasks.exports.researcharena import dump_typology
from tasks.release.researcharena import import_set
from tasks.store.store import Store
from tests.flows.conftest import direct

RELEASE, TAG = "2026-01-06", "title.bm25.abstract"


class Ways:
    """An edition of a synthetic release, its export in the authors' form, and the edition of what that imports."""

    def __init__(self, folder: Path) -> None:
        self.published, self.folder = folder / "set", folder
        write_release(folder / "releases", SyntheticSettings(release=RELEASE, papers=240, broken=False))
        self.original = self.build("original", folder / "releases")
        self.written = find_exporter("researcharena").write(self.original, self.published)
        import_set(self.published, folder / "imported", RELEASE)
        self.again = self.build("again", folder / "imported")

    def build(self, name: str, releases: Path) -> Edition:
        machine = Machine(root=self.folder / name, releases=releases, workers=1)
        store = Store(machine.root)
        pipeline = Pipeline(store, RELEASE, direct(store))
        pipeline.build_corpus(CorpusSettings(buckets=2), open_files(machine, RELEASE))
        pipeline.build_indexes(IndexSettings(bm25_fields=("abstract", "text"), dense_fields=()))
        pipeline.run_systems(RunSettings(baselines=("title",), retrievers=("bm25",)))
        return open_edition(machine.root, RELEASE)

    def records(self, name: str) -> list[dict]:
        return [json.loads(line) for line in (self.published / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    return Ways(tmp_path_factory.mktemp("published"))


@pytest.mark.long
def test_records_have_the_published_shape(ways: Ways) -> None:
    surveys = ways.records("survey.jsonl")
    qrels = ways.original.qrels()
    assert [record["id"] for record in surveys] == list(qrels)
    keys = ["id", "title", "abstract", "publicationDate", "referenceCount", "semanticSource", "externalSource"]
    for record in surveys:
        assert list(record) == [*keys, "subjects", "references", "typology"]
        influential, relevant = (set(record["references"][kind]) for kind in ("influential", "relevant"))
        assert isinstance(record["referenceCount"], str) and not influential & relevant
        labels = qrels[record["id"]]
        assert {document for document, label in labels.items() if label == 2} <= influential
        assert set(labels) <= influential | relevant
    documents = ways.original.table("documents").collect()
    found = ways.records("public_00.jsonl") + ways.records("public_01.jsonl")
    assert {record["id"] for record in found} == set(documents["corpus_id"])
    texts = ways.records("corpus_00000000.jsonl") + ways.records("corpus_00000001.jsonl")
    assert {record["id"] for record in texts} == set(documents["corpus_id"])


def test_an_imported_edition_has_the_same_judgments_runs_and_scores(ways: Ways) -> None:
    first, again = ways.original, ways.again
    assert len(first.qrels()) > 3
    assert again.qrels() == first.qrels()
    assert again.run(TAG) == first.run(TAG)
    for slot in (f"scores/{TAG}", "bm25/text", "bm25/abstract"):
        assert again.dataset(slot).ref.digest == first.dataset(slot).ref.digest, slot
    accepted = [
        set(edition.table("surveys").filter(accepted=True).collect()["corpus_id"]) for edition in (first, again)
    ]
    documents = set(first.table("documents").collect()["corpus_id"])
    assert accepted[0] & documents == accepted[1] & documents
    columns = ["topic_id", "title", "horizon", "references", "accessible", "relevant", "influential", "coverage"]
    columns.append("fields_of_study")
    assert again.topics().select(columns).equals(first.topics().select(columns))


def test_mind_maps_survive(ways: Ways, tmp_path: Path) -> None:
    survey = ways.records("survey.jsonl")[0]
    text = '{"Birds": {"Seed eaters": null, "Divers": {"Auks": null, "Auks": null}}, "Bats": "small"}'
    tree = parse_mindmap(text)
    assert parse_mindmap(dump_typology(tree)) == tree
    survey["typology"] = text
    (tmp_path / "set").mkdir()
    for path in ways.written:
        (tmp_path / "set" / path.name).symlink_to(path)
    (tmp_path / "set/survey.jsonl").unlink()
    (tmp_path / "set/survey.jsonl").write_text(json.dumps(survey))
    import_set(tmp_path / "set", tmp_path / "releases", RELEASE)
    machine = Machine(root=tmp_path / "root", releases=tmp_path / "releases", workers=1)
    store = Store(machine.root)
    Pipeline(store, RELEASE, direct(store)).build_corpus(CorpusSettings(buckets=2), open_files(machine, RELEASE))
    maps = open_edition(machine.root, RELEASE).table("mindmaps").collect()
    assert maps["topic_id"].to_list() == [survey["id"]]
    assert parse_tree(maps["tree"][0]) == tree


@pytest.mark.parametrize("line", ["{", '{"id": 1, "title": "A survey"}', '{"id": "x", "title": "A survey"}'])
def test_a_record_of_another_form_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "survey.jsonl").write_text(line)
    (tmp_path / "public_00.jsonl").write_text('{"id": 2, "title": "Rain", "abstract": null}')
    with pytest.raises(BadInput, match=r"survey\.jsonl, line 1: is no record of this set"):
        import_set(tmp_path, tmp_path / "releases", RELEASE)
    assert not (tmp_path / "releases" / RELEASE).exists()


def test_a_release_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "releases" / RELEASE).mkdir(parents=True)
    with pytest.raises(ReleaseError, match="the release exists"):
        import_set(tmp_path, tmp_path / "releases", RELEASE)
    with pytest.raises(ReleaseError, match=r"holds no survey\.jsonl"):
        import_set(tmp_path, tmp_path / "releases", "2026-01-13")
