"""Files of trees that people bring."""

import json
from pathlib import Path

import pytest

from schemas.errors import BadInput
from schemas.mindmap import tree_labels
from tasks.organization.tree_files import LONE, read_trees


def test_a_lone_tree_and_lines_of_trees_in_every_form(tmp_path: Path):
    lone, lines = tmp_path / "tree.json", tmp_path / "trees.jsonl"
    lone.write_text(json.dumps({"Birds": {"Owls": None}}, indent=1))
    assert tree_labels(read_trees(lone).trees[LONE]) == ["Birds", "Owls"]
    lines.write_text(
        '{"corpusid": 5, "tree": {"label": "Birds", "children": []}}\n\n'
        '{"file": "a.png", "corpusid": 5, "tree": null}\n'
        '{"file": "b.png", "corpusid": 5, "tree": {"Owls": {}}}\n'
    )
    found = read_trees(lines)
    assert {name: tree_labels(tree) for name, tree in found.trees.items()} == {"5": ["Birds"], "b.png": ["Owls"]}
    assert found.without == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "holds no tree"),
        ("{", "line 1: neither"),
        ('{"corpusid": 1, "tree": {"a": {}}}\n[1]', "line 2: must be an object"),
        ('{"tree": {"a": {}}}\n', "line 1: does not name its tree"),
        ('{"id": 1, "tree": {"a": {}}}\n{"id": 1, "tree": {"a": {}}}', "line 2: 1 has a tree already"),
        ('{"id": 1, "tree": {}}', "line 1: "),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "line 1: "),
    ],
)
def test_bad_files_are_refused_by_line(content: str, problem: str, tmp_path: Path):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(BadInput, match=problem):
        read_trees(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(BadInput, match=r"nowhere\.json: cannot be read"):
        read_trees(tmp_path / "nowhere.json")
