"""Whatever is called, in whatever order and with whatever token: nothing hidden comes out, and the server stays up."""

import json
from collections import Counter
from itertools import count
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.conftest import HIDDEN, OPEN, TITLES, Served

IDS = st.sampled_from([*HIDDEN, *OPEN]) | st.integers(-(10**20), 10**20)
NUMBERS = st.sampled_from([0, -1, 1, 20, 1000, 1001, 10**9, 10**30]) | st.none() | st.booleans()
TEXTS = st.sampled_from(
    [*TITLES.values(), "hidden900", "secret910 secret911", "", "\0", "🕊️ птицы", "x" * 30_000, "' OR 1=1 --"]
) | st.text(max_size=30)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "query": TEXTS | st.integers(),
        "k": NUMBERS,
        "engine": st.sampled_from(["bm25", "dense", "hybrid", "all", None]),
        "ids": st.lists(IDS, max_size=8),
        "id": IDS,
        "offset": NUMBERS,
        "ranking": st.lists(IDS, max_size=8),
        "horizon": st.just("2030-01-01"),
        "tree": st.just({"label": "x", "children": []}),
        "answer": TEXTS,
        "status": st.sampled_from(["scored", "failed", "x"]),
        "n": NUMBERS,
        "edition": st.just("poisoned"),
        "task": st.sampled_from(["discovery", "paperqa"]),
        "paper": TEXTS,
        "page": NUMBERS,
        "expression": TEXTS,
    },
)
SMALL = st.integers(1, 1000)
FITTING = st.one_of(
    st.tuples(st.just("search"), st.fixed_dictionaries({"query": TEXTS}, optional={"k": SMALL})),
    st.tuples(st.just("documents"), st.fixed_dictionaries({"ids": st.lists(IDS, min_size=1, max_size=3)})),
    st.tuples(
        st.sampled_from(["references", "citations"]),
        st.fixed_dictionaries({"id": IDS}, optional={"k": SMALL, "offset": st.integers(0, 9)}),
    ),
    st.tuples(st.just("submit"), st.fixed_dictionaries({"ranking": st.lists(IDS, max_size=8)})),
)
PATHS = (
    *("search", "documents", "references", "citations", "submit", "sql", "passages", "page", "calculate"),
    *("runs", "runs/{run}/topics"),
)
ANYTHING = st.tuples(st.sampled_from(PATHS), BODIES)
TOKENS = st.sampled_from(["mine", "mine", "mine", "other", "run", "expired", "forged", "none"])
Generated = tuple[tuple[str, dict[str, Any]], str]
"""A path with its body, and whose token is sent."""

CALLS = st.tuples(FITTING | ANYTHING, TOKENS)


def tokens_of(served: Served, version: str) -> dict[str, str | None]:
    """Opens a run with topics of its own, so that what one sequence hands in ends nothing for the next."""
    run = served.open_run(version)
    mine, other, expired = served.lease(run, 3)
    past = "UPDATE topics SET deadline = 1 WHERE shown = ?"
    served.desk.ledger.write(lambda db: db.execute(past, (expired["topic"],))).result()
    named = {"mine": mine, "other": other, "expired": expired}
    found = {name: topic["topic_token"] for name, topic in named.items()}
    return {**found, "run": run["run_token"], "forged": "forged" * 8, "none": None}


def send(client: httpx.Client, tokens: dict[str, str | None], version: str, found: Generated) -> httpx.Response:
    (path, body), token = found
    headers = {"Authorization": f"Bearer {tokens[token]}"} if tokens[token] else {}
    return client.post(f"/v1/{path.format(run=f'tester@{version}')}", json=body, headers=headers)


def require_nothing_hidden(reply: httpx.Response) -> None:
    assert reply.status_code in (200, 201, 401, 404, 409, 410, 422, 429), reply.text
    text = reply.text
    assert "hidden" not in text and "secret9" not in text
    assert "UPDATE" not in text and "/tmp" not in text
    if reply.status_code == 200 and (found := json.loads(text)):
        shown = [*found.get("hits", ()), *found.get("documents", ()), *found.get("papers", ())]
        assert not {row["corpus_id"] for row in shown} & HIDDEN
        total = found.get("total")
        assert total is None or total <= 7  # with the hidden papers it would be 13 and more


def try_calls(served: Served, name: str, sequences: int) -> Counter[int]:
    """Makes generated calls, 20 to 30 in a sequence; returns how often each status was answered."""
    statuses: Counter[int] = Counter()
    versions = (f"{name}-{number}" for number in count())
    with served.client() as client:

        @settings(max_examples=sequences, suppress_health_check=list(HealthCheck), database=None, deadline=None)
        @given(st.lists(CALLS, min_size=20, max_size=30))
        def calls_are_safe(calls: list[Generated]) -> None:
            version = next(versions)
            tokens = tokens_of(served, version)
            for found in calls:
                reply = send(client, tokens, version, found)
                require_nothing_hidden(reply)
                statuses[reply.status_code] += 1

        calls_are_safe()
        assert client.get("/v1/health").status_code == 200
    assert {200, 401, 404, 409, 410, 422} <= statuses.keys()
    return statuses


def test_no_call_leaks(served: Served) -> None:
    try_calls(served, "few", 8)


@pytest.mark.e2e
@pytest.mark.timeout(1800)
def test_no_call_of_thousands_leaks(served: Served) -> None:
    statuses = try_calls(served, "many", 250)
    print(f"{statuses.total():,} calls: {dict(sorted(statuses.items()))}")  # noqa: T201
    assert statuses.total() >= 5000


def test_nothing_hidden_comes_out_of_a_poisoned_corpus(served: Served) -> None:
    run = served.open_run("poison")
    for topic in served.lease(run, 9):
        with served.client(topic["topic_token"]) as client:
            for query in (topic["title"], "hidden900 secret910 secret1", "Migration schools singing of birds fish"):
                reply = client.post("/v1/search", json={"query": query, "k": 1000})
                require_nothing_hidden(reply)
                assert len(reply.json()["hits"]) > 20 or "hidden" in query
            for paper in OPEN:
                for path in ("references", "citations"):
                    require_nothing_hidden(client.post(f"/v1/{path}", json={"id": paper, "k": 1000}))


def test_no_route_reaches_judgments(served: Served) -> None:
    """The qrels of a topic are one document; before the run is finished, no answer tells it from the others."""
    run = served.open_run("qrels")
    with served.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
        assert not [path for path in paths if "qrel" in path or "judg" in path]
        for path in ("qrels", "editions/poisoned/qrels", "runs/tester@qrels/qrels", "../topics", "%2e%2e/topics"):
            assert client.get(f"/v1/{path}").status_code in (401, 404)
    topic, another = served.lease(run, 2)
    with served.client(topic["topic_token"]) as client:
        good = client.post("/v1/submit", json={"ranking": [101]}).json()
    with served.client(another["topic_token"]) as client:
        bad = client.post("/v1/submit", json={"ranking": [150]}).json()
    assert good == bad
    with served.client(run["run_token"]) as client:
        assert "scores" not in client.get(f"/v1/runs/{run['run']}").json()
