"""Checks a questions file and its paper metadata, and reports every broken rule as a row."""

import json
import re
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.paperqa import ELEMENT_TAGS, EVALUATION_TAGS, TASK_TAGS, AnnotatedExample, Finding
from tasks.paperqa.evaluators import evaluate_answer
from tasks.paperqa.evaluators.registry import get_evaluator
from tasks.paperqa.evaluators.validation import evaluator_violations, is_subjective
from tasks.paperqa.questions import read_lines, read_metadata_file

RULES: Mapping[str, str] = {
    "V0": "A line is a JSON object; a metadata file is a complete record named by its uuid.",
    "V1": "The uuid is a lower-case UUID and occurs once.",
    "V2": "The question is not empty.",
    "V3": "Every field is there and of its type.",
    "V4": "One task tag, one evaluation tag, at least one element tag.",
    "V5": "The evaluator is known, has its required arguments, and so have those inside it.",
    "V6": "No paper is anchor and reference at once.",
    "V7": "Every paper id is a lower-case UUID of the paper index.",
    "V8": "A partial count lies between 0 and the number of points, both excluded.",
    "W1": "Only published tags.",
    "W2": "The tag text stands only where no other element tag does.",
    "W3": "The evaluation tag agrees with the evaluator.",
    "W4": "single: one anchor, no reference, no conference.",
    "W5": "multiple: an anchor, no conference.",
    "W6": "retrieval: no anchor, a conference, and the target as reference.",
    "W7": "comprehensive: no anchor, a conference, a reference.",
    "W8": "No id or tag occurs twice in a list.",
    "W9": "The evaluator knows every argument.",
    "W10": "Every argument is of the kind that the evaluator compares with.",
    "W11": "Thresholds are on the scale of 0 to 100.",
    "W12": "The evaluator's copy of the question is the question.",
    "W13": "No control characters.",
    "W14": "The example's own gold scores 1.",
    "W15": "There is an answer format.",
    "W16": "No whitespace around the question or the evaluator's texts.",
    "W17": "A paper's uuid follows from its title, conference and year.",
}
"""All rules: V is hard (the record is unusable), W is soft (the record is used). V0 and W15 to W17 are our own."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_KNOWN_TAGS = TASK_TAGS | ELEMENT_TAGS | EVALUATION_TAGS
_TRUE_VERDICT = "```txt\ntrue\n```"


class _Broken(NamedTuple):
    """A broken rule: its id, the place in the record, and the problem."""

    rule: str
    where: str
    message: str


def check_questions(path: Path, metadata_dir: Path | None = None) -> list[Finding]:
    """Returns every broken rule, in the order of the file's lines and then of the metadata files.

    Args:
        path: Questions as JSON lines. A `uuids.json` beside it (a list of paper ids) is the paper index.
        metadata_dir: Folder of `<uuid>.json` files; they are checked too, and belong to the paper index.

    Raises:
        BadInput: The file cannot be read.
    """
    paper_ids = _paper_index(path.with_name("uuids.json"), metadata_dir)
    findings: list[Finding] = []
    seen: set[str] = set()
    for line in read_lines(path):
        uuid = (line.record or {}).get("uuid")
        broken = [_Broken("V0", "", line.problem or "")] if line.record is None else list(_broken_rules(line.record))
        if line.record is not None:
            broken += _unknown_papers(line.record, paper_ids)
        if isinstance(uuid, str) and uuid in seen:
            broken.append(_Broken("V1", "uuid", "occurs on an earlier line too"))
        elif isinstance(uuid, str):
            seen.add(uuid)
        findings += [_finding(item, path, line.number, uuid) for item in broken]
    return findings + (_metadata_findings(metadata_dir) if metadata_dir else [])


def _finding(broken: _Broken, path: Path, line: int | None, uuid: object) -> Finding:
    return Finding(
        rule=broken.rule,
        severity="hard" if broken.rule.startswith("V") else "soft",
        file=path.name,
        line=line,
        uuid=uuid if isinstance(uuid, str) else None,
        where=broken.where,
        message=broken.message,
    )


def _broken_rules(record: Mapping[str, Any]) -> Iterator[_Broken]:
    violations = [_Broken(*violation) for violation in evaluator_violations(record.get("evaluator"))]
    try:
        example = AnnotatedExample.model_validate(record)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_input=False):
            rule = item["type"] if item["type"] in RULES else "V3"
            yield _Broken(rule, ".".join(map(str, item["loc"])), item["msg"])
        if "evaluator" in record:
            yield from violations
        return
    yield from violations
    yield from _tag_rules(example)
    yield from _paper_rules(example)
    yield from _text_rules(example)
    if not any(violation.rule == "V5" for violation in violations):
        yield from _evaluation_tag_rule(example)
    yield from _own_gold_rule(example)


def _tag_rules(example: AnnotatedExample) -> Iterator[_Broken]:
    for tag in example.tags:
        if tag not in _KNOWN_TAGS:
            yield _Broken("W1", "tags", f"unknown tag {tag}")
    elements = ELEMENT_TAGS & set(example.tags)
    if "text" in elements and len(elements) > 1:
        yield _Broken("W2", "tags", f"text stands beside {', '.join(sorted(elements - {'text'}))}")


def _evaluation_tag_rule(example: AnnotatedExample) -> Iterator[_Broken]:
    due = "subjective" if is_subjective(dict(example.evaluator)) else "objective"
    if due not in example.tags:
        yield _Broken("W3", "tags", f"the evaluator is {due}, the tag says otherwise")


def _paper_rules(example: AnnotatedExample) -> Iterator[_Broken]:
    anchors, references, venues = len(example.anchor_pdf), len(example.reference_pdf), len(example.conference)
    rule, kept = {
        "single": ("W4", anchors == 1 and not references and not venues),
        "multiple": ("W5", anchors >= 1 and not venues),
        "retrieval": ("W6", not anchors and venues and references),
        "comprehensive": ("W7", not anchors and venues and references),
    }[example.task]
    if not kept:
        counts = f"{anchors} anchors, {references} references, {venues} conferences"
        yield _Broken(rule, "anchor_pdf, reference_pdf, conference", f"{example.task} with {counts}")
    for name in ("anchor_pdf", "reference_pdf", "conference", "tags"):
        values = cast("tuple[str, ...]", getattr(example, name))
        for value in sorted({value for value in values if values.count(value) > 1}):
            yield _Broken("W8", name, f"{value} occurs {values.count(value)} times")


def _text_rules(example: AnnotatedExample) -> Iterator[_Broken]:
    kwargs = example.evaluator.eval_kwargs
    if not example.answer_format:
        yield _Broken("W15", "answer_format", "is empty")
    if "question" in kwargs and kwargs["question"] != example.question:
        yield _Broken("W12", "evaluator.question", f"asks {reprlib.repr(kwargs['question'])}")
    graded = [("question", example.question), *_texts(kwargs, "evaluator")]
    for where, text in [*graded, ("answer_format", example.answer_format)]:
        if found := _CONTROL.search(text):
            yield _Broken("W13", where, f"holds the character {ord(found[0]):#04x}, often LaTeX without its backslash")
    for where, text in graded:
        if text != text.strip():
            yield _Broken("W16", where, "begins or ends with whitespace")


def _own_gold_rule(example: AnnotatedExample) -> Iterator[_Broken]:
    call = example.evaluator
    try:
        gold = get_evaluator(call.eval_func).read_options(call.eval_kwargs).own_answer()
    except (BadInput, TypeError) as error:
        yield _Broken("W14", "evaluator", f"no answer can score: {error}")
        return
    if gold is not None and evaluate_answer(dict(call), gold, lambda *_: _TRUE_VERDICT) < 1:
        yield _Broken("W14", "evaluator", f"its own gold {reprlib.repr(gold)} scores 0")


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Yields every text in a nested JSON value with its path."""
    left = [(where, value)]
    while left:
        place, item = left.pop()
        if isinstance(item, str):
            yield place, item
        elif isinstance(item, dict):
            left += [(f"{place}.{key}", inner) for key, inner in cast("dict[str, object]", item).items()]
        elif isinstance(item, list):
            left += [(f"{place}[{i}]", inner) for i, inner in enumerate(cast("list[object]", item))]


def _paper_index(path: Path, metadata_dir: Path | None) -> frozenset[str] | None:
    """Returns the ids of all known papers, or None if there is neither an index nor metadata."""
    try:
        listed = cast("list[str]", json.loads(path.read_bytes())) if path.is_file() else []
        ids = frozenset(listed)
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path}: a JSON list of paper ids is needed ({error})") from error
    if metadata_dir is not None:
        ids |= {file.stem for file in metadata_dir.glob("*.json")}
    return ids or None


def _unknown_papers(record: Mapping[str, Any], paper_ids: frozenset[str] | None) -> Iterator[_Broken]:
    for name in ("anchor_pdf", "reference_pdf"):
        listed: object = record.get(name)
        for paper in cast("list[object]", listed) if isinstance(listed, list) else []:
            if paper_ids is not None and isinstance(paper, str) and paper not in paper_ids:
                yield _Broken("V7", name, f"{paper} is not in the paper index")


def _metadata_findings(folder: Path) -> list[Finding]:
    findings: list[Finding] = []
    for path in sorted(folder.glob("*.json")):
        try:
            uuid, paper = read_metadata_file(path)
        except BadInput as error:
            findings.append(_finding(_Broken("V0", "", str(error)), path, None, path.stem))
            continue
        if paper.expected_uuid() != uuid:
            broken = _Broken("W17", "uuid", f"title, conference and year give {paper.expected_uuid()}")
            findings.append(_finding(broken, path, None, uuid))
    return findings
