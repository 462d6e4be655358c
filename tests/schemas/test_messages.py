"""Messages: one line, bounded, without secrets of URLs."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from schemas.errors import BadInput, StageFailed
from schemas.messages import LONGEST, describe, hide_queries, one_line


@given(st.text(st.characters(), max_size=300))
def test_a_message_is_one_printable_line_and_cleaning_it_again_changes_nothing(text: str) -> None:
    line = one_line(text, 100)
    assert len(line) <= 100
    assert not set("\n\r\x1b\x9b\x00\u202e\u2028") & set(line)
    line.encode()
    assert one_line(line, 100) == line


def test_a_long_message_keeps_its_beginning_and_its_remedy() -> None:
    line = str(BadInput("q.jsonl, line 3: " + "x" * 5_000_000 + "; remove the line"))
    assert len(line) <= LONGEST
    assert line.startswith("q.jsonl, line 3: x")
    assert line.endswith("x; remove the line")
    assert " [...] " in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("get https://me:pw@s3.host/a/b?X-Signature=abc#d failed", "get https://s3.host/a/b failed"),
        ("url:http://u:p@host:8/x", "url:http://host:8/x"),
        ("'https://h/p?key=1', 'HTTP://h?q'", "'https://h/p', 'HTTP://h'"),
        ("s3://bucket/key?versionId=9", "s3://bucket/key"),
        ("(see https://h/a?b=c); then go on.", "(see https://h/a); then go on."),
        ("mail me@host about 1/2?", "mail me@host about 1/2?"),
    ],
)
def test_urls_lose_user_password_query_and_fragment(text: str, shown: str) -> None:
    assert hide_queries(text) == shown
    assert str(StageFailed(text)) == shown


def test_a_secret_at_the_cut_of_a_long_message_stays_hidden() -> None:
    secret = "s3cret" * 2_000
    assert "s3cret" not in one_line(f"{'x' * 900} https://host/path?{secret} {'y' * 900}", 400)


def test_a_refused_value_is_named_by_place_and_not_shown() -> None:
    class Line(BaseModel):
        number: int
        names: list[int]

    with pytest.raises(ValidationError) as refused:
        Line.model_validate({"number": "x" * 5_000_000, "names": ["a", "b", "c", "https://h?key=1"]})
    told = describe(refused.value)
    assert told.startswith("number: Input should be a valid integer")
    assert told.endswith("; 2 more")
    assert len(told) < 400
    assert "xx" not in told
    with pytest.raises(ValidationError) as no_json:
        Line.model_validate_json(b"{")
    assert describe(no_json.value).startswith("the whole: Invalid JSON")


def test_an_error_survives_the_way_back_from_a_process() -> None:
    error = pickle.loads(pickle.dumps(BadInput("q.jsonl: wrong")))
    assert (type(error), str(error)) == (BadInput, "q.jsonl: wrong")
