"""Reads answers that an external system wrote to a file."""

from pathlib import Path

from pydantic_core import from_json

from schemas.errors import BadInput


def read_answers(path: Path) -> dict[str, object]:
    """Reads answers by question from a JSON object `{uuid: answer}` or JSON lines `{"uuid": ..., "answer": ...}`.

    Raises:
        BadInput: The file cannot be read, has another form, or answers a question twice.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a file of answers") from error
    lines = [line for line in raw.splitlines() if line.strip()]
    answers: dict[str, object] = {}
    try:
        whole = from_json(raw) if len(lines) != 1 or b'"uuid"' not in raw else None
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        return whole
    for number, line in enumerate(lines, 1):
        try:
            record = from_json(line)
        except ValueError as error:
            raise BadInput(f"{path}, line {number}: not JSON ({error}); correct or remove the line") from error
        match record:
            case {"uuid": str(uuid), "answer": answer} if uuid not in answers:
                answers[uuid] = answer
            case {"uuid": str(uuid), "answer": _}:
                raise BadInput(f"{path}, line {number}: question {uuid} is answered twice; remove one answer")
            case _:
                raise BadInput(f"{path}, line {number}: an object with uuid and answer is needed")
    return answers
