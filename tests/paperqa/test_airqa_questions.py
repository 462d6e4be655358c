"""Loading and checking questions and paper metadata; what a system can see; averages."""

import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.paperqa import AnnotatedExample, PaperMetadata, Question
from tasks.paperqa.averages import micro_average, score_answers
from tasks.paperqa.checks import RULES, check_questions
from tasks.paperqa.evaluators import AnswerScore
from tasks.paperqa.evaluators.registry import evaluator_names
from tasks.paperqa.questions import load_metadata, load_questions

PAPER, OTHER = "11111111-1111-5111-8111-111111111111", "22222222-2222-5222-8222-222222222222"


def uuid(number):
    return f"{number:08x}-0000-5000-8000-000000000000"


def record(number=1, **changes):
    """A single-paper question without a flaw, in the form of the data-format document."""
    return {
        "uuid": uuid(number),
        "question": "How many layers has the encoder?",
        "answer_format": "an integer",
        "tags": ["single", "text", "objective"],
        "anchor_pdf": [PAPER],
        "reference_pdf": [],
        "conference": [],
        "evaluator": {"eval_func": "eval_int_exact_match", "eval_kwargs": {"gold": 12}},
    } | changes


def evaluator(name, **kwargs):
    return {"eval_func": name, "eval_kwargs": kwargs}


def write(tmp_path, *lines):
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def rules(tmp_path, **changes):
    return [finding.rule for finding in check_questions(write(tmp_path, record(**changes)))]


def test_both_published_forms_are_loaded(tmp_path):
    hints = {"reasoning_steps": ["look at table 2"], "state": {"product": False}, "annotator": "human"}
    plain, hinted = load_questions(write(tmp_path, record(1), "", record(2, **hints)))
    assert (plain.reasoning_steps, plain.annotator) == ((), None)
    assert (hinted.reasoning_steps, hinted.annotator) == (("look at table 2",), "human")


def test_a_system_sees_nothing_of_the_hidden_part(tmp_path):
    secrets = {
        "reference_pdf": [OTHER],
        "tags": ["multiple", "table", "objective"],
        "reasoning_steps": ["SECRET step"],
        "state": {"SECRET product": True},
        "annotator": "SECRET person",
        "evaluator": evaluator("eval_string_exact_match", gold="SECRET gold"),
    }
    (example,) = load_questions(write(tmp_path, record(**secrets)))
    seen = example.visible()
    assert set(Question.model_fields) == {"uuid", "question", "answer_format", "anchor_pdf", "conference"}
    assert not set(secrets) & set(dir(seen))
    assert "SECRET" not in repr(seen) + seen.model_dump_json()
    assert OTHER not in repr(seen)
    with pytest.raises(ValidationError):
        Question(**(seen.model_dump() | {"reference_pdf": [OTHER]}))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "line 2: not JSON"),
        ("[1]", "JSON object is needed"),
        ("[" * 100_000, "not JSON"),
        (record(2, uuid="A"), "not a lower-case UUID"),
        (record(1), "occurs twice"),
        (record(2, question=" "), "question is empty"),
        (record(2, anchor_pdf=PAPER), "anchor_pdf"),
        (record(2, conference=None), "conference"),
        (record(2, tags=["single", "multiple", "text", "objective"]), "one task tag"),
        (record(2, reference_pdf=[PAPER]), "anchor and reference"),
        (record(2, anchor_pdf=["../../etc/passwd"]), "not a lower-case UUID of a paper"),
        (record(2, evaluator=evaluator("eval_no_such", gold=1)), "unknown evaluator 'eval_no_such'"),
        (
            record(2, evaluator=evaluator("eval_negation", eval_func="eval_no_such", eval_kwargs={})),
            "unknown evaluator",
        ),
        (
            record(
                2, evaluator=evaluator("eval_conjunction", eval_func_list=["eval_int_exact_match"], eval_kwargs_list=[])
            ),
            "1 in eval_func_list against 0",
        ),
        ({key: value for key, value in record(2).items() if key != "evaluator"}, "evaluator"),
    ],
)
def test_an_unusable_line_is_named(tmp_path, line, message):
    with pytest.raises(BadInput, match="line 2") as caught:
        load_questions(write(tmp_path, record(1), line))
    assert message in str(caught.value)


def test_files_that_hold_no_questions_are_errors(tmp_path):
    with pytest.raises(BadInput, match="no questions"):
        load_questions(write(tmp_path, ""))
    with pytest.raises(BadInput, match="cannot be read"):
        load_questions(tmp_path / "absent.jsonl")
    with pytest.raises(BadInput, match="holds no"):
        load_metadata(tmp_path)


def test_known_slips_are_mended_on_request(tmp_path):
    kwargs = {
        "eval_func_list": ["eval_float_exact_match", "eval_int_exact_match"],
        "eval_kwargs_list": [{"gold": "2463.5"}, {"gold": 1}],
    }
    slips = record(tags=["single", "figure", "image", "objective"], evaluator=evaluator("eval_conjunction", **kwargs))
    path = write(tmp_path, slips)
    (published,), (mended,) = load_questions(path), load_questions(path, repair=True)
    assert mended.tags == ("single", "image", "objective")
    scores = [score_answers([example], {uuid(1): "[2463.5, 1]"})[uuid(1)].score for example in (published, mended)]
    assert scores == [0.0, 1.0]
    assert published.tags == tuple(slips["tags"])


RETRIEVAL = {"tags": ["retrieval", "text", "objective"], "anchor_pdf": []}
POINTS = {"scoring_points": ["a", "b"], "question": "How many layers has the encoder?"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"uuid": "x"}, ["V1"]),
        ({"question": ""}, ["V2"]),
        ({"tags": "single"}, ["V3"]),
        ({"question": 5, "conference": {}}, ["V3", "V3"]),
        ({"tags": ["single", "objective"]}, ["V4"]),
        ({"evaluator": evaluator("eval_no_such")}, ["V5", "W14"]),
        ({"evaluator": evaluator("eval_int_exact_match")}, ["V5", "W14"]),
        ({"evaluator": "eval_int_exact_match"}, ["V3", "V5"]),
        ({"reference_pdf": [PAPER]}, ["V6"]),
        ({"anchor_pdf": ["paper 7"]}, ["V7"]),
        (
            {
                "evaluator": evaluator("eval_partial_scoring_points_with_llm", count=2, **POINTS),
                "tags": ["single", "text", "subjective"],
            },
            ["V8", "W14"],
        ),
        ({"tags": ["single", "figure", "objective"]}, ["W1"]),
        ({"tags": ["single", "text", "table", "objective"]}, ["W2"]),
        ({"tags": ["single", "text", "subjective"]}, ["W3"]),
        ({"reference_pdf": [OTHER]}, ["W4"]),
        ({"tags": ["multiple", "text", "objective"], "conference": ["acl2023"]}, ["W5"]),
        (RETRIEVAL | {"conference": ["acl2023"]}, ["W6"]),
        (RETRIEVAL | {"conference": ["acl2023"], "reference_pdf": [OTHER]}, []),
        ({"tags": ["comprehensive", "text", "objective"], "anchor_pdf": [], "reference_pdf": [OTHER]}, ["W7"]),
        ({"tags": ["multiple", "text", "objective"], "anchor_pdf": [PAPER, PAPER]}, ["W8"]),
        ({"evaluator": evaluator("eval_int_exact_match", gold=1, nidigits=2)}, ["W9"]),
        ({"evaluator": evaluator("eval_string_exact_match", gold="a", lowercase="true")}, ["W10"]),
        ({"evaluator": evaluator("eval_string_fuzzy_match", gold="a", threshold=0.9)}, ["W11"]),
        (
            {
                "evaluator": evaluator("eval_reference_answer_with_llm", question="What?", reference_answer="a"),
                "tags": ["single", "text", "subjective"],
            },
            ["W12"],
        ),
        ({"question": "What is \x08eta?"}, ["W13"]),
        ({"evaluator": evaluator("eval_float_exact_match", gold="2.5")}, ["W10", "W14"]),
        ({"answer_format": ""}, ["W15"]),
        ({"question": "How many? "}, ["W16"]),
    ],
)
def test_each_rule_finds_its_flaw(tmp_path, changes, expected):
    assert sorted(rules(tmp_path, **changes)) == expected


def test_flaws_inside_logical_evaluators_are_found_where_they_stand(tmp_path):
    inner = evaluator("eval_negation", eval_func="eval_int_exact_match", eval_kwargs={"gold": 1, "fuzzy": True})
    kwargs = {"eval_func_list": ["eval_negation"], "eval_kwargs_list": [inner["eval_kwargs"]]}
    path = write(tmp_path, record(evaluator=evaluator("eval_conjunction", **kwargs)))
    places = {(finding.rule, finding.where) for finding in check_questions(path)}
    assert ("W9", "evaluator.eval_kwargs_list[0].eval_kwargs.fuzzy") in places


def test_lines_repeats_and_unknown_papers_are_found_with_their_line(tmp_path):
    (tmp_path / "uuids.json").write_text(json.dumps([PAPER]))
    path = write(tmp_path, record(1), "no json", "[]", record(1, anchor_pdf=[OTHER]), '{"uuid": "\\ud800"}')
    found = [(finding.rule, finding.line, finding.severity) for finding in check_questions(path)]
    assert [(rule, line) for rule, line, _ in found] == [("V0", 2), ("V0", 3), ("V7", 4), ("V1", 4), ("V0", 5)]
    assert {severity for *_, severity in found} == {"hard"}


def test_deeply_nested_lines_are_findings_not_crashes(tmp_path):
    gold = 1
    for _ in range(400):
        gold = [gold]
    name, kwargs = "eval_structured_object_exact_match", {"gold": gold}
    assert rules(tmp_path, evaluator=evaluator(name, **kwargs)) == ["V0"]
    kwargs = {"gold": 1}
    for _ in range(60):
        name, kwargs = "eval_negation", {"eval_func": name, "eval_kwargs": kwargs}
    path = write(tmp_path, record(evaluator=evaluator(name, **kwargs)))
    assert "V5" in [finding.rule for finding in check_questions(path)]
    with pytest.raises(BadInput, match="nested"):
        load_questions(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["gold", "x"]), inner, max_size=2),
    max_leaves=6,
)
ARGUMENTS = ["gold", "count", "scoring_points", "eval_func", "eval_kwargs", "eval_func_list", "eval_kwargs_list"]


@given(
    st.sampled_from(evaluator_names()),
    st.dictionaries(st.sampled_from([*ARGUMENTS, "question", "threshold", "formulas", "reference_answer"]), JSON),
    st.dictionaries(st.sampled_from(list(record())), JSON, max_size=2),
)
def test_any_record_is_checked_and_loaded_or_refused(name, kwargs, changes):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), record(evaluator=evaluator(name, **kwargs)) | changes)
        findings = check_questions(path)
        try:
            load_questions(path)
        except BadInput:
            assert "hard" in {finding.severity for finding in findings}


def metadata(**changes):
    paper = {
        "title": "Trees: A Survey",
        "conference_full": "Annual Meeting",
        "conference": "ACL",
        "year": 2023,
        "volume": None,
        "bibtex": "@inproceedings{x}",
        "authors": ["A. Author"],
        "num_pages": 9,
        "pdf_url": "https://example.org/x",
        "pdf_path": "data/papers/ACL/x.pdf",
        "abstract": "We survey trees.",
        "tldr": "Trees.",
        "tags": ["trees"],
    } | changes
    expected = PaperMetadata(uuid=PAPER, **paper).expected_uuid() if "uuid" not in changes else changes["uuid"]
    return paper | {"uuid": expected}


def test_metadata_is_loaded_and_checked_against_its_uuid(tmp_path):
    folder = tmp_path / "metadata"
    folder.mkdir()
    good = metadata()
    (folder / f"{good['uuid']}.json").write_text(json.dumps(good))
    papers = load_metadata(folder)
    assert papers[good["uuid"]].venue == "acl2023"
    (folder / f"{OTHER}.json").write_text(json.dumps(metadata(uuid=OTHER)))
    (folder / f"{PAPER}.json").write_text("{}")
    path = write(tmp_path, record(anchor_pdf=[good["uuid"]]))
    found = [(finding.rule, finding.uuid) for finding in check_questions(path, folder)]
    assert found == [("V0", PAPER), ("W17", OTHER)]
    with pytest.raises(BadInput, match=PAPER):
        load_metadata(folder)


def test_averages_pair_by_uuid_and_count_a_missing_answer_as_zero(tmp_path):
    tables = {"tags": ["single", "table", "image", "objective"]}
    examples = load_questions(write(tmp_path, record(1), record(2, **tables), record(3)))
    scores = score_answers(examples, {uuid(2): "12", uuid(1): "[error]: gave up"})
    counters = micro_average(examples, scores)
    assert (counters["all"].correct, counters["all"].count, counters["all"].scored) == (1.0, 3, 1)
    assert counters["all"].score == pytest.approx(1 / 3)
    assert {tag: (row.correct, row.count) for tag, row in counters.items() if tag != "all"} == {
        "image": (1.0, 1),
        "objective": (1.0, 3),
        "single": (1.0, 3),
        "table": (1.0, 1),
        "text": (0.0, 2),
    }
    assert micro_average(examples, {})["all"].score == 0.0
    assert micro_average([], {uuid(1): AnswerScore(1.0, None)})["all"].score == 0.0
    with pytest.raises(BadInput, match="belong to no question"):
        score_answers(examples, {uuid(9): "12"})


EXPECTED_COUNTS = {
    "V5": 1,
    "W1": 2,
    "W2": 106,
    "W3": 1,
    "W5": 1,
    "W6": 244,
    "W8": 1,
    "W9": 6,
    "W10": 9,
    "W11": 1,
    "W12": 12,
    "W13": 3,
    "W14": 2,
    "W15": 10,
    "W16": 3,
}
EXPECTED_QUESTIONS = {
    "V5": {"de8d9b7f"},
    "W1": {"55c4fae8", "a49ce3ea"},
    "W3": {"1aa41ae8"},
    "W5": {"31c0e826"},
    "W8": {"3bec1f83"},
    "W9": {"d82a4438", "de8d9b7f", "25c34c03", "5c49a736", "0318f9e2", "b50d066a"},
    "W10": {"c50576c6", "f1adf502", "17c12592", "2719728b", "282710e9", "a49ce3ea", "d170af87", "bb6ffb6d", "807fdd37"},
    "W11": {"bc5c4cf7"},
    "W13": {"2719728b", "43938b52", "67f33e3f"},
    "W14": {"bb6ffb6d", "de8d9b7f"},
    "W16": {"8e6f688d", "9ce8e94a", "d170af87"},
}


def test_the_published_questions_have_the_known_flaws_and_no_other(shared):
    folder = shared / "data/airqa"
    findings = check_questions(folder / "test_data_553.jsonl", folder / "metadata")
    flawed = defaultdict(set)
    for finding in findings:
        flawed[finding.rule].add(finding.uuid)
    assert {rule: len(uuids) for rule, uuids in flawed.items()} == EXPECTED_COUNTS
    assert {rule: {uuid[:8] for uuid in flawed[rule]} for rule in EXPECTED_QUESTIONS} == EXPECTED_QUESTIONS
    assert set(flawed) <= set(RULES)
    assert "11dbf1bb" in {uuid[:8] for uuid in flawed["W12"]}
    assert Counter(finding.rule for finding in findings)["W9"] == 7, "0318f9e2 has the flaw twice"


def test_the_published_questions_and_papers_are_loaded(shared):
    examples = load_questions(shared / "data/airqa/test_data_553.jsonl")
    assert Counter(example.task for example in examples) == {"single": 159, "multiple": 150, "retrieval": 244}
    assert Counter(example.annotator for example in examples)["litsearch_automatic"] == 11
    assert all(isinstance(example, AnnotatedExample) for example in examples)
    papers = load_metadata(shared / "data/airqa/metadata")
    assert len(papers) == 331
    assert all(paper.expected_uuid() == uuid for uuid, paper in papers.items())
    assert sum(paper.volume is None for paper in papers.values()) == 106
