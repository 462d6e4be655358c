"""Test sets of the search benchmark: the real ones, unknown values, and what is wrong with files."""

import json
from collections import Counter
from pathlib import Path

import pytest

from schemas.errors import BadInput
from tasks.search.queries import marginals, open_query_files, read_test_set, unknown_values


def test_the_real_test_sets(shared: Path) -> None:
    queries = [
        query for path in sorted((shared / "data/paper_lantern").glob("*.json")) for query in read_test_set(path)
    ]
    assert Counter(query.test_set for query in queries) == {"computer_science_ai": 200, "computer_science_non_ai": 200}
    assert len({query.query_key for query in queries}) == 400
    found = marginals(queries)
    assert found["computer_science_ai", "query_type", "How To"] == 50
    assert found["computer_science_non_ai", "specificity_level", "Very specific"] == 69
    assert unknown_values(queries) == {"query_type Niche Areas": 40}


def write(tmp_path: Path, text: str, name: str = "set_search_queries.json") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_other_sets_of_the_form_load_and_keep_what_is_unknown(tmp_path: Path) -> None:
    content = {
        "a b": {"search_query": " <b>two</b>\n words ", "settings": {"length": "Endless", "mood": "Grim"}},
        "c": {"search_query": "x"},
    }
    first, second = read_test_set(write(tmp_path, json.dumps(content)))
    assert first[:3] == ("set/a b", "set", "<b>two</b> words")
    assert first.dimensions == {"length": "Endless", "mood": "Grim"}
    assert second.dimensions == {}
    assert unknown_values([first, second]) == {"dimension mood": 1, "length Endless": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"q": {"settings": {}}}', "'q': no text under 'search_query'"),
        ('{"q": {"search_query": null}}', "no text"),
        ('{"q": {"search_query": "  "}}', "is empty"),
        ('{"q": "text"}', "no text"),
        ('{"q": {"search_query": "x"}, "q": {"search_query": "y"}}', "'q' occurs twice"),
        ('{"q": {"search_query": "x", "search_query": "y"}}', "occurs twice"),
        ('{"q": {"search_query": "x", "settings": {"length": 3}}}', "a text for every dimension"),
        ('{"q": {"search_query": "x", "settings": []}}', "a text for every dimension"),
        ('{"q": {"search_query": "x", "length": "Few words"}}', "length beside"),
        ("{}", "with one query per key"),
        ("[]", "with one query per key"),
        ("{", "not a readable test set"),
        ("[" * 100_000, "not a readable test set"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_test_set(write(tmp_path, text))


def test_files_are_known_by_content_and_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, '{"q": {"search_query": "x"}}')
    a, b = (tmp_path / folder / "set_search_queries.json" for folder in ("a", "b"))
    assert open_query_files([a]).digest == open_query_files([b]).digest
    with pytest.raises(BadInput, match="given twice"):
        open_query_files([a, b])
    with pytest.raises(BadInput, match="no file"):
        open_query_files([])
    with pytest.raises(BadInput, match="cannot be read"):
        open_query_files([tmp_path / "absent.json"])
