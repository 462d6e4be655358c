"""Reads the published questions and paper metadata."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from schemas.errors import BadInput
from schemas.messages import describe
from schemas.paperqa import TAG_ALIASES, AnnotatedExample, EvaluatorCall, PaperId, PaperMetadata
from tasks.paperqa.evaluators.parsing import as_number
from tasks.paperqa.evaluators.validation import walk_evaluators


class Line(NamedTuple):
    """A line of a questions file: its 1-based number, and its JSON object or the problem with it."""

    number: int
    record: dict[str, Any] | None
    problem: str | None


def read_lines(path: Path) -> Iterator[Line]:
    """Yields the non-blank lines of a questions file.

    Raises:
        BadInput: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if raw.strip():
                    yield _read_line(number, raw)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a questions file") from error


def _read_line(number: int, raw: bytes) -> Line:
    try:
        record = from_json(raw)
    except ValueError as error:
        return Line(number, None, f"not JSON: {error}")
    if not isinstance(record, dict):
        return Line(number, None, f"a JSON object is needed, not {type(record).__name__}")
    return Line(number, record, None)


def load_questions(path: Path, repair: bool = False) -> list[AnnotatedExample]:
    """Loads the annotated examples of a questions file, in its order.

    A question whose evaluator lacks an argument is loaded and scores 0 (the published 553 contain one; dropping it
    would change the published denominators).

    Args:
        path: JSON lines: the 553-question file, or one in the form of the data-format document.
        repair: Correct known mistakes (`repair_example`); otherwise tags and gold values stay as published.

    Raises:
        BadInput: A line is not a usable record, a uuid occurs twice, or an evaluator is unknown or malformed.
    """
    examples: dict[str, AnnotatedExample] = {}
    for line in read_lines(path):
        try:
            if line.problem is not None:
                raise BadInput(line.problem)
            example = AnnotatedExample.model_validate(line.record)
            if example.uuid in examples:
                raise BadInput(f"uuid {example.uuid} occurs twice")
            list(walk_evaluators(dict(example.evaluator)))
        except (BadInput, ValidationError) as error:
            raise BadInput(f"{path}, line {line.number}: {describe(error)}; correct or remove the line") from error
        examples[example.uuid] = repair_example(example) if repair else example
    if not examples:
        raise BadInput(f"{path}: holds no questions; give a file of JSON lines")
    return list(examples.values())


def repair_example(example: AnnotatedExample) -> AnnotatedExample:
    """Corrects known mistakes: the tag `figure` becomes `image`, and text golds of float evaluators become numbers."""
    tags = dict.fromkeys(TAG_ALIASES.get(tag, tag) for tag in example.tags)
    call = example.evaluator
    kwargs = _with_number_gold(call.eval_func, call.eval_kwargs)
    evaluator = EvaluatorCall(eval_func=call.eval_func, eval_kwargs=kwargs)
    return example.model_copy(update={"tags": tuple(tags), "evaluator": evaluator})


def _with_number_gold(name: object, kwargs: dict[str, Any]) -> dict[str, Any]:
    if name == "eval_float_exact_match" and isinstance(kwargs.get("gold"), str):
        number = as_number(kwargs["gold"])
        return kwargs if number is None else kwargs | {"gold": number}
    if "eval_kwargs" in kwargs:
        return kwargs | {"eval_kwargs": _with_number_gold(kwargs.get("eval_func"), kwargs["eval_kwargs"])}
    if "eval_kwargs_list" in kwargs:
        parts = zip(kwargs["eval_func_list"], kwargs["eval_kwargs_list"], strict=True)
        return kwargs | {"eval_kwargs_list": [_with_number_gold(*part) for part in parts]}
    return kwargs


def load_metadata(folder: Path) -> dict[PaperId, PaperMetadata]:
    """Loads the metadata of every paper in a folder of `<uuid>.json` files, by uuid.

    Raises:
        BadInput: The folder has no such file, or one is unusable.
    """
    papers = dict(read_metadata_file(path) for path in sorted(folder.glob("*.json")))
    if not papers:
        raise BadInput(f"{folder}: holds no <uuid>.json files; give the folder of the paper metadata")
    return papers


def read_metadata_file(path: Path) -> tuple[PaperId, PaperMetadata]:
    """Reads one paper's uuid and metadata.

    Raises:
        BadInput: The file is not JSON, lacks a field, or is not named after its uuid.
    """
    try:
        paper = PaperMetadata.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise BadInput(f"{path}: {describe(error)}; correct or remove the file") from error
    if paper.uuid != path.stem:
        raise BadInput(f"{path}: holds the paper {paper.uuid}; rename the file or correct the uuid")
    return paper.uuid, paper
