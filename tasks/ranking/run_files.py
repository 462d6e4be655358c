"""Reads rankings and relevance judgments from files of users: TREC's columns, or JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from schemas.errors import BadInput
from schemas.messages import describe

Qrels = dict[str, dict[str, int]]
Run = dict[str, list[tuple[str, float]]]

_QRELS_JSON = TypeAdapter(Qrels)
_RUN_JSON = TypeAdapter(dict[str, dict[str, float] | list[tuple[str, float]]])


def read_qrels(path: Path) -> Qrels:
    """Reads labels as `{topic: {document: label}}`.

    Args:
        path: Lines `topic 0 document label`, or JSON `{topic: {document: label}}`.

    Raises:
        BadInput: The file cannot be read, or a line has another form.
    """
    text = _read(path)
    if text.lstrip().startswith(b"{"):
        return _parse(_QRELS_JSON, text, path, "{topic: {document: label}}")
    qrels: Qrels = {}
    for number, (topic, _, document, label) in _lines(path, text, 4, "topic 0 document label"):
        try:
            qrels.setdefault(topic, {})[document] = int(label)
        except ValueError as error:
            raise BadInput(f"{path}, line {number}: label {label!r} is no integer; correct the line") from error
    return qrels


def read_run(path: Path) -> Run:
    """Reads scored documents as `{topic: [(document, score), ...]}`.

    Args:
        path: Lines `topic Q0 document rank score tag`, or JSON `{topic: [[document, score], ...]}` or
            `{topic: {document: score}}`.

    Raises:
        BadInput: The file cannot be read, or a line has another form.
    """
    text = _read(path)
    if text.lstrip().startswith(b"{"):
        found = _parse(_RUN_JSON, text, path, "{topic: [[document, score], ...]}")
        return {topic: list(hits.items()) if isinstance(hits, dict) else hits for topic, hits in found.items()}
    run: Run = {}
    for number, (topic, _, document, _, score, _) in _lines(path, text, 6, "topic Q0 document rank score tag"):
        try:
            run.setdefault(topic, []).append((document, float(score)))
        except ValueError as error:
            raise BadInput(f"{path}, line {number}: score {score!r} is no number; correct the line") from error
    return run


def _read(path: Path) -> bytes:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a file") from error
    if not text.strip():
        raise BadInput(f"{path}: holds nothing; give a file with rankings or judgments")
    return text


def _parse(adapter: TypeAdapter[Any], text: bytes, path: Path, form: str) -> Any:
    try:
        return adapter.validate_python(orjson.loads(text))
    except (orjson.JSONDecodeError, ValidationError) as error:
        raise BadInput(f"{path}: expected JSON of the form {form} ({describe(error)}); correct it") from error


def _lines(path: Path, text: bytes, columns: int, form: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
        cells = line.split()
        if cells and len(cells) != columns:
            raise BadInput(f"{path}, line {number}: expected `{form}`, found {line[:80]!r}; correct the line")
        if cells:
            yield number, cells
