"""A week by its diff equals the edition of the whole release, and does not rebuild what did not change."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from isal import igzip

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files, open_update
from flows.pipeline.walk import Pipeline
from schemas.errors import ReleaseError, UsageError
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, RunSettings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.reports.edition_changes import compare_scores, compare_topics, fresh_topics, score_slice
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import direct
from tests.index.conftest import save_tiny_model

OLD, NEW = "2026-01-06", "2026-01-13"
DATASETS = ("papers", "abstracts", "citations", "s2orc_v2")
CORPUS = CorpusSettings(corpus="abstract", buckets=4)
Record = dict[str, Any]


def read(folder: Path) -> list[Record]:
    """Returns the records of a dataset's files that can be parsed."""
    found: list[Record] = []
    for path in sorted(folder.glob("*.gz")):
        for line in igzip.open(path, "rb").read().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return [record for record in found if isinstance(record, dict)]


def write(path: Path, records: Iterable[Record]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(json.dumps(record) + "\n" for record in records).encode())


def key_of(dataset: str, record: Record) -> object:
    return record.get("citationid" if dataset == "citations" else "corpusid")


def topics_of(pipeline: Pipeline, edition: str) -> pl.DataFrame:
    store = pipeline.store
    return pl.read_parquet(store.open(Editions(store).load(edition).slots["topics"]).files())


def build_on(pipeline: Pipeline, model: Path) -> None:
    """Builds indexes, runs and scores of an edition whose corpus exists."""
    pipeline.build_indexes(IndexSettings(encoder=EncoderSettings(model=str(model))))
    pipeline.run_systems(RunSettings(baselines=("title",)))


class Weeks:
    """Two stores in which a week passes: one applies its diff, the other reads the new release whole."""

    def __init__(self, folder: Path) -> None:
        self.mirror = folder / "releases"
        self.model = save_tiny_model(folder / "tiny", seed=0)
        write_release(self.mirror, SyntheticSettings(release=OLD, papers=240, broken=False))
        write_release(folder / "larger", SyntheticSettings(release=OLD, papers=250, broken=False))
        self.machines = {
            name: Machine(root=folder / name, releases=self.mirror, workers=1) for name in ("diff", "whole")
        }
        first = self.pipeline("diff", OLD)
        first.build_corpus(CORPUS, open_files(self.machines["diff"], OLD))
        build_on(first, self.model)
        shutil.copytree(folder / "diff", folder / "whole")
        self.write_week(folder / "larger" / OLD, topics_of(first, OLD).filter(outcome="kept")["topic_id"].to_list())
        by_diff = self.pipeline("diff", NEW)
        by_diff.update_corpus(CORPUS, open_update(self.machines["diff"], OLD, NEW))
        whole = self.pipeline("whole", NEW)
        whole.build_corpus(CORPUS, open_files(self.machines["whole"], NEW))
        for pipeline in (by_diff, whole):
            build_on(pipeline, self.model)

    def pipeline(self, name: str, edition: str) -> Pipeline:
        store = Store(self.machines[name].root)
        return Pipeline(store, edition, direct(store))

    def write_week(self, larger: Path, topics: list[int]) -> None:
        """Deletes one topic's survey, moves another's date by a year, and turns a cited paper into a survey."""
        records = {dataset: read(self.mirror / OLD / dataset) for dataset in DATASETS}
        papers = {record["corpusid"]: record for record in records["papers"]}
        self.gone, self.later, citing = topics[:3]
        cited = [edge["citedcorpusid"] for edge in records["citations"] if edge["citingcorpusid"] == citing]
        self.turned = next(i for i in cited if i in papers and "survey" not in papers[i]["title"].lower())
        year = papers[self.later]["year"] + 1
        updates: dict[str, list[Record]] = {
            dataset: [
                r for r in read(larger / dataset) if key_of(dataset, r) not in {key_of(dataset, o) for o in found}
            ]
            for dataset, found in records.items()
        }
        updates["papers"] += [
            papers[self.later] | {"publicationdate": f"{year}-06-01", "year": year},
            papers[self.turned] | {"title": f"A Survey of {papers[self.turned]['title']}"},
        ]
        for dataset, found in records.items():
            deletes = [] if dataset == "citations" else [{"corpusid": self.gone}, {"corpusid": 10**12}]
            folder = self.mirror / "diffs" / f"{OLD}_{NEW}" / dataset
            write(folder / "updates/part", updates[dataset])
            if deletes:
                write(folder / "deletes/part", deletes)
            gone = {key_of(dataset, record) for record in (*deletes, *updates[dataset])}
            kept = [record for record in found if key_of(dataset, record) not in gone]
            write(self.mirror / NEW / dataset / "part", [*kept, *updates[dataset]])


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Weeks:
    return Weeks(tmp_path_factory.mktemp("weeks"))


@pytest.fixture
def opened(weeks: Weeks) -> Callable[[str, str], Any]:
    store = weeks.pipeline("diff", NEW).store
    return lambda edition, slot: store.open(Editions(store).load(edition).slots[slot])


@pytest.mark.long
def test_every_dataset_is_that_of_the_release_read_whole(weeks: Weeks) -> None:
    by_diff, whole = (Editions(weeks.pipeline(name, NEW).store).load(NEW).slots for name in ("diff", "whole"))
    assert {slot: ref.digest for slot, ref in by_diff.items()} == {slot: ref.digest for slot, ref in whole.items()}
    assert {"bm25/abstract", "embeddings/abstract", "scores/title.hybrid.abstract+model"} <= by_diff.keys()
    assert by_diff["paper_records"].key != whole["paper_records"].key


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        CorpusSettings(buckets=4),
        CorpusSettings(buckets=4, survey_scope="references", references="citations"),
    ],
    ids=lambda settings: f"{settings.candidate_scope}-{settings.link_source}",
)
def test_surveys_and_references_of_a_week_are_those_of_the_release_read_whole(
    weeks: Weeks, settings: CorpusSettings
) -> None:
    name = f"{settings.candidate_scope}-{settings.link_source}"
    by_diff = weeks.pipeline("diff", name).update_corpus(settings, open_update(weeks.machines["diff"], OLD, NEW))
    whole = weeks.pipeline("whole", name).build_corpus(settings, open_files(weeks.machines["whole"], NEW))
    assert {slot: ref.digest for slot, ref in by_diff.items()} == {slot: ref.digest for slot, ref in whole.items()}
    assert weeks.pipeline("diff", name).store.open(by_diff["topics"]).manifest.counts.kept > 0


def test_only_changed_texts_are_encoded_and_judged(opened: Callable[[str, str], Any]) -> None:
    assert opened(OLD, "embeddings/abstract").manifest.counts.notes["reused"] == 0
    notes = opened(NEW, "embeddings/abstract").manifest.counts.notes
    assert 0 < notes["encoded"] <= 12
    assert notes["encoded"] + notes["reused"] == opened(NEW, "documents").manifest.counts.kept
    assert opened(OLD, "surveys").manifest.counts.notes["known"] == 0
    verdicts = opened(NEW, "surveys").manifest.counts.notes
    assert 0 < verdicts["judged"] <= 3 < verdicts["known"]


def test_topics_follow_their_surveys(weeks: Weeks, opened: Callable[[str, str], Any]) -> None:
    changes = {c.topic_id: c for c in compare_topics(opened(OLD, "topics"), opened(NEW, "topics"))}
    assert (changes[weeks.gone].change, changes[weeks.gone].what) == ("gone", "no accepted survey")
    assert changes[weeks.later].change == "changed"
    assert "horizon" in changes[weeks.later].what
    old, new = (pl.read_parquet(opened(name, "topics").files("qrels")) for name in (OLD, NEW))
    assert weeks.turned in set(old["corpus_id"])
    assert weeks.turned not in set(new["corpus_id"])  # surveys are nobody's references
    assert any("removed" in change.what for change in changes.values() if change.topic_id != weeks.later)


def test_scores_of_unchanged_topics_are_kept_apart_from_new_ones(opened: Callable[[str, str], Any]) -> None:
    changes = compare_topics(opened(OLD, "topics"), opened(NEW, "topics"))
    slot = "scores/title.bm25.abstract"
    others = {change.topic_id for change in changes if change.change != "gone"}
    before, after = (
        pl.read_parquet(opened(name, slot).files()).filter(measure="recall_100", labels="graded") for name in (OLD, NEW)
    )
    found = next(c for c in compare_scores(opened(OLD, slot), opened(NEW, slot), changes) if c.measure == "recall_100")
    same = after.filter(~pl.col("topic_id").is_in(others))
    assert found.topics == len(same)
    assert found.after == pytest.approx(same["value"].mean())
    was = before.filter(pl.col("topic_id").is_in(same["topic_id"].to_list()))["value"].mean()
    assert found.difference == pytest.approx(found.after - was)
    assert found.new.valued == len(after) - len(same)


def test_a_fresh_slice_holds_the_younger_surveys(opened: Callable[[str, str], Any]) -> None:
    topics = pl.read_parquet(opened(NEW, "topics").files()).filter(outcome="kept")
    day = topics["horizon"].sort()[len(topics) // 2]
    fresh = fresh_topics(opened(NEW, "topics"), day)
    assert fresh == set(topics.filter(pl.col("horizon") > day)["topic_id"])
    part = score_slice(opened(NEW, "scores/title.bm25.abstract"), fresh)["recall_100"]
    rows = pl.read_parquet(opened(NEW, "scores/title.bm25.abstract").files()).filter(
        measure="recall_100", labels="graded"
    )
    assert part.mean == pytest.approx(rows.filter(pl.col("topic_id").is_in(fresh))["value"].mean())
    assert part.low <= part.mean <= part.high


def test_a_refused_update_says_why(weeks: Weeks) -> None:
    machine = weeks.machines["diff"]
    with pytest.raises(ReleaseError, match=f"no diffs lead from release {OLD} to 2026-02-03"):
        open_update(machine, OLD, "2026-02-03")
    assert open_update(machine, OLD, None).release == NEW
    with pytest.raises(ReleaseError, match=f"no diffs in .* start at release {NEW}; run: arena release diff"):
        open_update(machine, NEW, None)
    with pytest.raises(UsageError, match="no edition"):
        open_update(machine, "elsewhere", None)


def test_figures_are_the_later_releases_or_else_the_earlier_ones(weeks: Weeks) -> None:
    machine = weeks.machines["diff"]
    assert open_update(machine, OLD, NEW).figures is None
    try:
        for release in (OLD, NEW):
            folder = weeks.mirror / release / "figures"
            (folder / "data").mkdir(parents=True)
            (folder / "data" / "1.json").write_text("[]")
            found = open_update(machine, OLD, NEW).figures
            assert found is not None
            assert (found.directory, found.release, found.dataset) == (folder, NEW, "figures")
    finally:
        for release in (OLD, NEW):
            shutil.rmtree(weeks.mirror / release / "figures", ignore_errors=True)
