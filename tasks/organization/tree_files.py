"""Reads mind-maps from files that people bring, to score one file against another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from schemas.errors import BadInput
from schemas.mindmap import Tree, load_any

NAMES = ("topic_id", "file", "corpusid", "corpus_id", "survey_title", "id")
"""Members that may name a line's tree; the first one present is used."""

LONE = "tree"
"""Name of the tree in a file that holds only one."""


class TreeFile(NamedTuple):
    """Trees by name, and the number of lines without a tree (`"tree": null`)."""

    trees: Mapping[str, Tree]
    without: int


def read_trees(path: Path) -> TreeFile:
    """Returns the canonical trees of a file.

    Args:
        path: One JSON document that is a tree, or JSON lines `{name: ..., "tree": tree or null}` with one of `NAMES`; a
            tree has any form that `schemas.mindmap.load_any` takes.

    Raises:
        BadInput: The file cannot be read or holds no tree, a line has no name or no valid tree, or a name occurs twice.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a file of trees") from error
    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _lines(path, text)
    if isinstance(whole, dict) and "tree" in whole:
        return _lines(path, text)
    return TreeFile({LONE: _tree(whole, str(path))}, 0)


def _lines(path: Path, text: bytes) -> TreeFile:
    trees: dict[str, Tree] = {}
    without = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadInput(f"{where}: neither a JSON tree nor JSON lines ({error}); correct the file") from error
        if not isinstance(record, dict) or "tree" not in record:
            raise BadInput(f"{where}: must be an object with a member 'tree'; correct the line")
        members = cast("dict[str, Any]", record)
        name = next((str(members[key]) for key in NAMES if members.get(key) is not None), None)
        if name is None:
            raise BadInput(f"{where}: does not name its tree; add one of {', '.join(NAMES)}")
        if name in trees:
            raise BadInput(f"{where}: {name} has a tree already; remove one")
        if members["tree"] is None:
            without += 1
        else:
            trees[name] = _tree(members["tree"], where)
    if not trees:
        raise BadInput(f"{path}: holds no tree; give a JSON tree, or JSON lines with a member 'tree'")
    return TreeFile(trees, without)


def _tree(value: object, where: str) -> Tree:
    try:
        return load_any(value)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
