"""How long to wait before another try, and when the tries end."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput, TransientError
from tasks.http.retry import Busy, RetryRules, is_busy, persist, retry_after_s, wait_s

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


@given(st.integers(1, 100), st.one_of(st.none(), st.floats(0, 1e6)))
def test_waits_are_bounded_and_as_long_as_asked(tries: int, asked: float | None) -> None:
    wait = wait_s(RetryRules(tries=100, base_s=2, cap_s=30, asked_cap_s=90), tries, asked)
    if asked is None:
        assert 0 <= wait <= min(30, 2 * 2 ** (tries - 1))
    else:
        assert min(asked, 90) <= wait <= min(asked, 90) + 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT"}, 30),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 -0000"}, 30),
        ({"retry-after": "Fri, 20 Nov 2026 09:00:00 GMT"}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds


def test_statuses_that_may_pass_are_busy() -> None:
    assert [status for status in (200, 206, 302, 403, 404, 408, 416, 425, 429, 500, 503, 529) if is_busy(status)] == [
        408, 425, 429, 500, 503, 529,
    ]  # fmt: skip


def test_only_transient_errors_are_tried_again_and_the_last_one_is_told() -> None:
    rules, waits, calls = RetryRules(4, 0.5, 60, 10), list[float](), list[int]()

    def call(error: Exception, times: int) -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return "fine"

    caller = persist(rules, "come back tomorrow", waits.append)
    assert caller(call, Busy("busy", 3600), 2) == "fine"
    assert [10 <= wait <= 10.5 for wait in waits] == [True, True]
    waits.clear(), calls.clear()
    assert caller(call, Busy("busy", 0), 1) == "fine"
    assert waits == [0], "a server that asks for no wait is asked again at once"
    calls.clear()
    with pytest.raises(TransientError, match=r"^busy \(tries: 4\); come back tomorrow$") as raised:
        caller(call, Busy("busy"), 99)
    assert (len(calls), type(raised.value)) == (4, TransientError)
    calls.clear()
    with pytest.raises(BadInput, match="wrong"):
        caller(call, BadInput("wrong"), 99)
    assert len(calls) == 1
