"""A run from outside becomes the datasets of our own runs, counts what was removed, and is scored alike."""

from pathlib import Path

import polars as pl
import pytest

from schemas.errors import BadInput, StoreError
from schemas.manifest import Ref
from schemas.mindmap import parse_tree
from schemas.submission import Entry, Handed, Sample, Submission, System
from schemas.tables.mindmaps import MINDMAPS
from schemas.tables.paperqa_questions import PAPERQA_ANNOTATIONS, PAPERQA_QUESTIONS
from schemas.tables.runs import SearchRow, StepRow
from tasks.ranking.scores import ScoreSettings, scores
from tasks.store.dataset import Dataset
from tasks.store.store import Request, Store
from tasks.submissions.deposits import deposit, is_made_of, read_deposit
from tasks.submissions.stages import (
    SubmissionSettings,
    check_entry,
    submitted_answers,
    submitted_run,
    submitted_trees,
)
from tests.published import publish, publish_documents, publish_surveys, publish_topics, topic_row

SURVEY, LATE, FIRST, SECOND, THIRD = 50, 51, 60, 61, 62
SYSTEM = System(name="agent", version="1")
QRELS = {7: {FIRST: 2, SECOND: 1}, 8: {THIRD: 1}, 9: {FIRST: 1}}
STEP = StepRow(7, 0, 0, [FIRST], 2)
SEARCH = SearchRow(7, 0, "birds", "bm25", 10, 2, 1, 10, 1, 2, 0)


@pytest.fixture
def inputs(store: Store) -> dict[str, Ref]:
    texts = dict.fromkeys([SURVEY, LATE, FIRST, SECOND, THIRD], ("Birds", None))
    return {
        "topics": publish_topics(store, [*map(topic_row, QRELS), topic_row(99, outcome="no_date")], QRELS),
        "documents": publish_documents(store, texts, late=[LATE]),
        "surveys": publish_surveys(store, [SURVEY, *QRELS]),
    }


def handed(returned: tuple[int, ...] = (), **fields: object) -> Handed:
    return Handed(Submission.model_validate(fields), returned)


def rankings(**of_topic: list[int]) -> dict[str, Handed]:
    return {name.removeprefix("t"): handed(ranking=ranking) for name, ranking in of_topic.items()}


def entry(topics: dict[str, Handed], sample: Sample | None = None) -> Entry:
    return Entry(SYSTEM, "discovery", topics, sample)


def build(store: Store, made: Entry, inputs: dict[str, Ref]) -> Dataset:
    stage = {"discovery": submitted_run, "organization": submitted_trees, "paperqa": submitted_answers}[made.task]
    settings = SubmissionSettings(system=made.system, task=made.task, tag=made.system.run, **dict(made.subset))
    request = Request(stage, settings, {"submission": deposit(store.root, "e", "2026-01-06", made), **inputs})
    return store.open(store.build(request).ref)


def test_a_ranking_becomes_a_run_with_searches_outcomes_and_counts(store: Store, inputs: dict[str, Ref]) -> None:
    first = Handed(
        Submission.model_validate({"ranking": [SECOND, LATE, FIRST, SECOND, 404], "usage": {"usd": 0.5}}),
        (FIRST,),
        (SEARCH,),
        (STEP,),
    )
    dataset = build(store, entry({"7": first, "8": handed(status="over_budget", note="no money")}), inputs)
    run = pl.read_parquet(dataset.files())
    assert run.rows() == [(7, SECOND, 1, -1.0, "agent@1"), (7, FIRST, 2, -2.0, "agent@1")]
    assert pl.read_parquet(dataset.files("searches")).rows() == [tuple(SEARCH)]
    assert pl.read_parquet(dataset.files("steps")).rows() == [tuple(STEP)]
    assert pl.read_parquet(dataset.files("outcomes")).rows() == [
        (7, "scored", None, False),
        (8, "over_budget", "no money", False),
        (9, "empty", "nothing was handed in", False),
    ]
    assert pl.read_parquet(dataset.files("outside_documents")).rows() == [(7, SECOND)]
    counted = pl.read_parquet(dataset.files("submissions"))
    assert counted.select("topic", "handed_in", "accepted", "unavailable", "duplicate", "outside", "usd").rows() == [
        ("7", True, 2, 2, 1, 1, 0.5),
        ("8", True, 0, 0, 0, 0, 0),
        ("9", False, 0, 0, 0, 0, 0),
    ]
    counts = dataset.manifest.counts
    assert (counts.read, counts.kept, counts.dropped) == (3, 1, {"empty": 1, "over_budget": 1})
    assert counts.notes == {"unavailable": 2, "duplicate": 1, "outside": 1}


def test_its_scores_are_those_of_the_ranking_without_violations(store: Store, inputs: dict[str, Ref]) -> None:
    def score(**of_topic: list[int]) -> Dataset:
        run = build(store, entry(rankings(**of_topic)), inputs)
        request = Request(scores, ScoreSettings(), {"run": run.ref, "topics": inputs["topics"]})
        return store.open(store.build(request).ref)

    def values(dataset: Dataset) -> pl.DataFrame:
        return pl.read_parquet(dataset.files())

    clean = values(score(t7=[FIRST, SECOND], t8=[FIRST, THIRD]))
    assert values(score(t7=[LATE, FIRST, 7, FIRST, SECOND], t8=[SURVEY, FIRST, THIRD, 404])).equals(clean)
    (value,) = clean.filter(labels="graded", measure="recip_rank", topic_id=8)["value"]
    assert value == 0.5
    (missing,) = clean.filter(labels="graded", measure="recip_rank", topic_id=9)["value"]
    assert missing == 0


def test_a_topic_that_was_not_asked_is_an_error_and_one_of_a_sample_is_not(
    store: Store, inputs: dict[str, Ref]
) -> None:
    datasets = {slot: store.open(ref) for slot, ref in inputs.items()}
    for unknown in ("99", "404", "x", "07"):
        with pytest.raises(BadInput, match=f"1 topics are not among the 3 .* the first is '{unknown}'"):
            check_entry(entry({unknown: handed(ranking=[FIRST])}), datasets)
    sample = Sample(topics=1, seed=3)
    (one,) = check_entry(entry({}, sample), datasets)
    outside = {str(topic) for topic in QRELS} - {one.asked.topic}
    with pytest.raises(BadInput, match="not among the 1"):
        check_entry(entry({name: handed(ranking=[FIRST]) for name in outside}, sample), datasets)


def test_a_bad_field_is_named_with_its_topic(store: Store, inputs: dict[str, Ref]) -> None:
    datasets = {slot: store.open(ref) for slot, ref in inputs.items()}
    with pytest.raises(BadInput, match="topic 7: answer: task discovery has none"):
        check_entry(entry({"7": handed(ranking=[FIRST], answer="x")}), datasets)


def test_trees_become_trees_with_the_references_that_they_were_made_of(store: Store, inputs: dict[str, Ref]) -> None:
    blank = {field.name: None if field.nullable else "x" for field in MINDMAPS.arrow}
    maps = [blank | {"topic_id": topic, "tree": '[{"label":"a","children":[]}]'} for topic in (7, 9)]
    numbers = {field.name: 1 for field in MINDMAPS.arrow if str(field.type).startswith("int") and not field.nullable}
    rows = [row | numbers | {"topic_id": row["topic_id"]} for row in maps]
    inputs = inputs | {"mindmaps": publish(store, "mindmaps", {"part": (MINDMAPS, rows)})}
    tree = {"label": "Birds", "children": [{"label": "Wings", "children": []}]}
    made = Entry(SYSTEM, "organization", {"7": handed(tree=tree, ranking=[FIRST, 404])})
    dataset = build(store, made, inputs)
    found = pl.read_parquet(dataset.files())
    assert found["topic_id"].to_list() == [7, 9], "only topics that have a mind-map"
    assert found.select("outcome", "references", "nodes", "depth").rows() == [("scored", 1, 2, 2), ("empty", 0, 0, 0)]
    assert parse_tree(found["tree"][0])["children"][0]["label"] == "Birds"
    assert found["tree"][1] is None
    assert pl.read_parquet(dataset.files("runs"))["corpus_id"].to_list() == [FIRST]


def test_answers_become_answers(store: Store) -> None:
    uuids = [f"{number:08x}-0000-0000-0000-000000000000" for number in range(3)]
    asked = [
        {"uuid": uuid, "question": "Why?", "answer_format": "", "anchor_pdf": [], "conference": []} for uuid in uuids
    ]
    tables = {"part": (PAPERQA_QUESTIONS, asked), "annotations": (PAPERQA_ANNOTATIONS, [])}
    questions = publish(store, "paperqa_questions", tables)
    usage = {"input_tokens": 3, "output_tokens": 4, "usd": 0.25}
    made = Entry(SYSTEM, "paperqa", {uuids[2]: handed(answer=["a", 1], usage=usage), uuids[0]: handed(answer="")})
    found = pl.read_parquet(build(store, made, {"questions": questions}).files())
    assert found.select("uuid", "answer", "outcome", "input_tokens", "cost_usd").rows() == [
        (uuids[0], None, "empty", 0, 0.0),
        (uuids[1], None, "empty", 0, 0.0),
        (uuids[2], '["a", 1]', "answered", 3, 0.25),
    ]


def test_a_run_is_kept_as_it_came_and_found_changed_when_it_was(store: Store, tmp_path: Path) -> None:
    made = entry({"7": Handed(Submission(ranking=[10**30, FIRST], status="failed"), (FIRST,), (SEARCH,))})
    deposited = deposit(store.root, "e", "2026-01-06", made)
    found = read_deposit(deposited)
    assert found == made
    assert found.topics["7"].submission.model_fields_set == {"ranking", "status"}
    path = deposited.directory / deposited.files[0].name
    path.write_bytes(path.read_bytes().replace(b"failed", b"scored"))
    with pytest.raises(StoreError, match="not as it was handed in"):
        read_deposit(deposited)


def test_a_dataset_knows_the_run_that_it_was_made_of(store: Store, inputs: dict[str, Ref]) -> None:
    made = entry(rankings(t7=[FIRST]))
    dataset = build(store, made, inputs)
    assert is_made_of(dataset, made)
    assert not is_made_of(dataset, entry(rankings(t7=[SECOND])))
