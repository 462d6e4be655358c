"""Every route of the served desk: fields, states, and the form and status of every error."""

import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from flows.service.serve import Address, check_address, listen
from schemas.errors import UsageError
from schemas.service import Quotas
from tests.service.conftest import EDITION, HIDDEN, OPEN, TITLES, Served, Start, links

DESK_CALLS = ("search", "documents", "references", "citations")


def call(served: Served, token: str | None, path: str, **body: Any) -> httpx.Response:
    with served.client(token) as client:
        return client.post(f"/v1/{path}", json=body)


def require_problem(reply: httpx.Response, status: int, word: str = "") -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert {"type", "title", "status", "detail"} <= body.keys()
    assert body["status"] == status and word in body["detail"]
    return body


def test_a_run_from_its_opening_to_its_scores(served: Served) -> None:
    run = served.open_run("whole")
    assert run.keys() == {"run", "run_token", "topics", "quotas"}
    assert (run["run"], run["topics"]) == ("tester@whole", 3)
    assert run["quotas"] == {"searches": 1000, "documents": 10_000, "seconds": 3600}
    with served.client(run["run_token"]) as client:
        first = client.post(f"/v1/runs/{run['run']}/topics").json()
        rest = client.post(f"/v1/runs/{run['run']}/topics", json={"n": 10}).json()
        none = client.post(f"/v1/runs/{run['run']}/topics", json={}).json()
    assert (len(first["topics"]), first["remaining"]) == (1, 2)
    assert (len(rest["topics"]), rest["remaining"], none) == (2, 0, {"topics": [], "remaining": 0})
    topics = first["topics"] + rest["topics"]
    assert {topic["title"] for topic in topics} == set(TITLES.values())
    for topic in topics:
        assert topic.keys() == {"topic", "topic_token", "title", "instructions", "quotas", "deadline"}
        assert topic["topic"] not in map(str, TITLES) and len(topic["topic_token"]) >= 22
        assert datetime.fromisoformat(topic["deadline"]) > datetime.now(UTC)

    token = topics[0]["topic_token"]
    found = call(served, token, "search", query=topics[0]["title"], k=5).json()
    assert found.keys() == {"hits", "engine", "quotas_left"}
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3, 4, 5] and found["engine"] == "bm25"
    assert found["hits"][0].keys() == {"rank", "corpus_id", "score", "title", "year"}
    assert {hit["year"] for hit in found["hits"]} == {2019}
    assert found["quotas_left"]["searches"] == 999
    more = call(served, token, "search", query="birds fish").json()
    assert len(more["hits"]) == 20

    ids = [hit["corpus_id"] for hit in found["hits"]][::-1]
    read = call(served, token, "documents", ids=ids).json()
    assert [document["corpus_id"] for document in read["documents"]] == ids
    assert read["documents"][0].keys() == {"corpus_id", "title", "abstract", "year", "venue", "authors"}
    assert read["documents"][0]["venue"] == f"Venue {ids[0]}"
    assert read["documents"][0]["authors"] == [f"Author {ids[0]}", "Ä. Öz"]
    assert (read["quotas_left"]["documents"], read["quotas_left"]["searches"]) == (9_995, 998)
    assert list((served.root / "details").iterdir()), "venues and authors come from row groups of 256, not of 65,536"

    seen = {hit["corpus_id"] for hit in found["hits"] + more["hits"]}
    foreign = next(i for i in OPEN if i not in seen)
    submitted = call(served, token, "submit", ranking=[*ids, ids[0], 7, foreign, 900, 10**30]).json()
    assert submitted == {"accepted": 6, "violations": {"unavailable": 3, "duplicate": 1}, "outside": 1}
    require_problem(call(served, token, "submit", ranking=ids), 409)
    for name, body in (("search", {"query": "x"}), ("documents", {"ids": ids}), ("references", {"id": ids[0]})):
        require_problem(call(served, token, name, **body), 409)
    failed = call(served, topics[1]["topic_token"], "submit", ranking=[], status="failed", note="broke")
    assert failed.json()["accepted"] == 0

    with served.client(run["run_token"]) as client:
        before = client.get(f"/v1/runs/{run['run']}").json()
        after = client.post(f"/v1/runs/{run['run']}/finish").json()
        require_problem(client.post(f"/v1/runs/{run['run']}/finish"), 409)
        require_problem(client.post(f"/v1/runs/{run['run']}/topics"), 409)
        again = client.get(f"/v1/runs/{run['run']}").json()
    assert before == {
        "state": "open",
        "topics": {"total": 3, "leased": 1, "submitted": 2, "expired": 0},
        "outcomes": {"scored": 1, "failed": 1},
    }
    assert (after["state"], after["outcomes"]) == ("finished", {"scored": 1, "failed": 1, "empty": 1})
    assert after["scores"]["graded"]["recall_100"] >= 0 and again == after
    require_problem(call(served, topics[2]["topic_token"], "search", query="x"), 410)


@pytest.mark.parametrize(("title", "recall"), [(TITLES[1], 0.0), (TITLES[2], 0.5)], ids=["private", "public"])
def test_scores_are_told_over_public_topics_alone(title: str, recall: float, served: Served) -> None:
    """Topic 1 is private: what is right for it must not show."""
    run = served.open_run(title.split()[0])
    right = {TITLES[topic]: 100 + topic for topic in TITLES}
    for topic in served.lease(run, 3):
        ranking = [right[topic["title"]]] if topic["title"] == title else []
        assert call(served, topic["topic_token"], "submit", ranking=ranking).json()["accepted"] == len(ranking)
    with served.client(run["run_token"]) as client:
        finished = client.post(f"/v1/runs/{run['run']}/finish").json()
    assert finished["private_topics"] == 1
    assert finished["scores"].keys() == {"graded"}
    graded = finished["scores"]["graded"]
    assert (graded["topics"], graded["covered"], graded["recall_100"]) == (2, int(recall > 0), recall)
    assert graded["recall_100_low"] <= recall <= graded["recall_100_high"]


def test_lookups_are_exact_and_paged(served: Served) -> None:
    (topic,) = served.lease(served.open_run("links"))
    token, known = topic["topic_token"], set(OPEN)
    for paper in (100, 110, 159):
        cited = sorted({b for a, b in links() if a == paper} & known)
        citing = sorted({a for a, b in links() if b == paper} & known)
        for name, expected in (("references", cited), ("citations", citing)):
            found = call(served, token, name, id=paper).json()
            assert found.keys() == {"papers", "total", "quotas_left"}
            assert ([p["corpus_id"] for p in found["papers"]], found["total"]) == (expected, len(expected))
            assert all(paper.keys() == {"corpus_id", "title", "year"} for paper in found["papers"])
            page = call(served, token, name, id=paper, k=1, offset=1).json()
            assert ([p["corpus_id"] for p in page["papers"]], page["total"]) == (expected[1:2], len(expected))


def test_what_is_hidden_and_what_does_not_exist_get_one_answer(served: Served) -> None:
    (topic,) = served.lease(served.open_run("hidden"))
    asks: list[Callable[[int], httpx.Response]] = [
        lambda i: call(served, topic["topic_token"], "documents", ids=[i]),
        lambda i: call(served, topic["topic_token"], "documents", ids=[100, i, 101]),
        lambda i: call(served, topic["topic_token"], "references", id=i),
        lambda i: call(served, topic["topic_token"], "citations", id=i, k=3, offset=2),
    ]
    for ask in asks:
        answers = {
            (reply.status_code, reply.content, tuple(sorted((k, v) for k, v in reply.headers.items() if k != "date")))
            for reply in map(ask, [*sorted(HIDDEN), 424_242, 0, -5, 10**30])
        }
        assert len(answers) == 1 and next(iter(answers))[0] == 404
    left = call(served, topic["topic_token"], "search", query="birds").json()["quotas_left"]
    assert (left["searches"], left["documents"]) == (999, 10_000)


@pytest.mark.parametrize("token", [None, "forged", "ä" * 5, "x" * 5000])
def test_tokens_are_needed(served: Served, token: str | None) -> None:
    headers = [(b"authorization", b"Bearer " + token.encode())] if token else []
    with httpx.Client(base_url=served.url, headers=headers, timeout=30) as client:
        for path in (*DESK_CALLS, "submit", "sql", "runs/tester@whole/topics", "runs/tester@whole/finish"):
            body = {"search": {"query": "x"}, "sql": {"query": "x"}, "documents": {"ids": [100]}}.get(path)
            body = body or ({"id": 100} if path in ("references", "citations") else {})
            require_problem(client.post(f"/v1/{path}", json=body), 401)
        require_problem(client.get("/v1/runs/tester@whole"), 401)


def test_a_run_token_is_no_topic_token_and_opens_no_other_run(served: Served) -> None:
    run, other = served.open_run("one"), served.open_run("other")
    (topic,) = served.lease(run)
    require_problem(call(served, run["run_token"], "search", query="x"), 401)
    with served.client(other["run_token"]) as client:
        require_problem(client.get(f"/v1/runs/{run['run']}"), 404)
        require_problem(client.post(f"/v1/runs/{run['run']}/finish"), 404)
    with served.client(topic["topic_token"]) as client:
        require_problem(client.get(f"/v1/runs/{run['run']}"), 401)


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("search", {}, "query"),
    ("search", {"query": 5}, "query"),
    ("search", {"query": "x", "k": 0}, "k"),
    ("search", {"query": "x", "k": -1}, "k"),
    ("search", {"query": "x", "k": 10**9}, "k"),
    ("search", {"query": "x", "k": "5"}, "k"),
    ("search", {"query": "x", "k": True}, "k"),
    ("search", {"query": "x", "engine": "google"}, "engine"),
    ("search", {"query": "x", "engine": "dense"}, "engine"),
    ("search", {"query": "x", "horizon": "2030-01-01"}, "horizon"),
    ("search", {"query": "x" * 30_000}, "query"),
    ("documents", {"ids": []}, "ids"),
    ("documents", {"ids": list(range(101))}, "ids"),
    ("documents", {"ids": ["100"]}, "ids.0"),
    ("references", {"id": 100, "k": 1001}, "k"),
    ("citations", {"id": 100, "offset": -1}, "offset"),
    ("submit", {}, "ranking"),
    ("submit", {"ranking": list(range(1001))}, "ranking"),
    ("submit", {"ranking": [100], "tree": {"label": "x", "children": []}}, "tree"),
    ("submit", {"ranking": [100], "status": "great"}, "status"),
    ("submit", {"ranking": [100], "usage": {"usd": -1}}, "usage.usd"),
]


@pytest.mark.parametrize(("path", "body", "field"), FAULTS)
def test_a_field_that_cannot_be_used_is_named(served: Served, path: str, body: dict[str, Any], field: str) -> None:
    token = _shared_token(served)
    told = require_problem(call(served, token, path, **body), 422, field)
    assert told["field"] == field


_tokens: dict[str, str] = {}


def _shared_token(served: Served) -> str:
    if served.url not in _tokens:
        _tokens[served.url] = served.lease(served.open_run("faults"))[0]["topic_token"]
    return _tokens[served.url]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 200_000, b'{"query": "\\ud800"}', b'{"query": NaN}'],
)
def test_bodies_that_are_not_the_form_are_refused(served: Served, content: bytes) -> None:
    with served.client(_shared_token(served)) as client:
        reply = client.post("/v1/search", content=content, headers={"content-type": "application/json"})
    require_problem(reply, 422)


def test_large_bodies_are_refused_however_they_come(served: Served) -> None:
    body = json.dumps({"query": "x" * 2**20}).encode()
    with served.client(_shared_token(served)) as client:
        for path in ("/v1/search", "/mcp", "/v1/runs"):
            require_problem(client.post(path, content=body), 413)
            require_problem(client.post(path, content=iter([body[:1000], body[1000:]])), 413)
        fits = json.dumps({"query": "x", "pad": "y" * (2**20 - 30)}).encode()
        reply = client.post("/v1/search", content=fits, headers={"content-type": "application/json"})
        require_problem(reply, 422, "pad")


def test_names_of_runs_are_unique_in_an_edition(served: Served) -> None:
    served.open_run("twice")
    system = {"name": "tester", "version": "twice", "kind": "closed"}
    with served.client() as client:
        for task in ("discovery", "selection"):
            reply = client.post("/v1/runs", json={"edition": EDITION, "task": task, "system": system})
            require_problem(reply, 409)
        for change, status in (
            ({"edition": "none"}, 404),
            ({"task": "organization"}, 422),
            ({"task": "paperqa"}, 422),
            ({"system": {"name": "a b", "version": "1"}}, 422),
            ({"sample": {"topics": 0, "seed": 1}}, 422),
        ):
            body = {"edition": EDITION, "task": "discovery", "system": {**system, "version": "new"}, **change}
            require_problem(client.post("/v1/runs", json=body), status)


def test_a_sample_is_the_same_for_equal_seeds(served: Served) -> None:
    drawn = [served.lease(served.open_run(f"s{n}", sample={"topics": 2, "seed": 7}), 9) for n in range(2)]
    assert [topic["title"] for topic in drawn[0]] == [topic["title"] for topic in drawn[1]]
    assert len(drawn[0]) == 2


def test_the_server_describes_itself(served: Served) -> None:
    with served.client() as client:
        assert client.get("/v1/health").json().keys() == {"status", "version"}
        (edition,) = client.get("/v1/editions").json()["editions"]
        assert edition == {
            "name": EDITION,
            "release": "2026-01-06",
            "published": None,
            "tasks": {
                "discovery": {"topics": 3},
                "selection": {"topics": 3},
                "organization": {"topics": 0},
                "paperqa": {"topics": 0},
            },
        }
        tools = client.get("/v1/tools.json").json()
        described = client.get("/openapi.json").json()
        require_problem(client.get("/v1/nothing"), 404)
        require_problem(client.put("/v1/health"), 405)
    names = {tool["function"]["name"] for tool in tools}
    assert names == {*DESK_CALLS, "submit", "sql", "passages", "page", "calculate"} - {"documents"} | {"get_documents"}
    assert all(tool["type"] == "function" and tool["function"]["parameters"]["type"] == "object" for tool in tools)
    paths = {*DESK_CALLS, "submit", "sql", "passages", "page", "calculate", "health", "editions", "tools.json", "runs"}
    assert {f"/v1/{path}" for path in paths} <= described["paths"].keys()
    for path in (*DESK_CALLS, "submit", "runs"):
        posted = described["paths"][f"/v1/{path}"]["post"]
        schema = posted["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert described["components"]["schemas"][schema].get("examples"), path
        assert {"401", "404", "409", "410", "413", "422", "429"} <= posted["responses"].keys()


def test_quotas_are_exact_and_named(start: Start) -> None:
    served = start(quotas=Quotas(searches=3, documents=4, seconds=60))
    (topic,) = served.lease(served.open_run())
    token = topic["topic_token"]
    assert {name: topic["quotas"][name] for name in ("searches", "documents")} == {"searches": 3, "documents": 4}
    left = [call(served, token, "search", query="birds").json()["quotas_left"]["searches"] for _ in range(2)]
    assert left == [2, 1]
    assert call(served, token, "references", id=110).json()["quotas_left"]["searches"] == 0
    for path, body in (("search", {"query": "x"}), ("references", {"id": 110}), ("citations", {"id": 110})):
        assert require_problem(call(served, token, path, **body), 429, "searches")["quota"] == "searches"
    assert require_problem(call(served, token, "documents", ids=[100] * 5), 429)["quota"] == "documents"
    assert call(served, token, "documents", ids=[100] * 4).status_code == 200
    assert call(served, token, "submit", ranking=[100]).status_code == 200


def test_a_lease_that_ends_gives_its_topic_back(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    served = start(quotas=Quotas(searches=5, documents=5, seconds=60))
    run = served.open_run(sample={"topics": 1, "seed": 1})
    (topic,) = served.lease(run)
    assert served.lease(run) == []
    call(served, topic["topic_token"], "search", query="birds")
    now = datetime.now(UTC).timestamp()
    monkeypatch.setattr("tasks.service.ledger.time", lambda: now + 61)
    for path, body in (("search", {"query": "x"}), ("submit", {"ranking": [100]})):
        require_problem(call(served, topic["topic_token"], path, **body), 410)
    with served.client(run["run_token"]) as client:
        status = client.get(f"/v1/runs/{run['run']}").json()
    assert status["topics"] == {"total": 1, "leased": 0, "submitted": 0, "expired": 1}
    (again,) = served.lease(run)
    assert (again["topic"], again["quotas"]["searches"]) == (topic["topic"], 4)
    assert again["topic_token"] != topic["topic_token"]
    require_problem(call(served, topic["topic_token"], "search", query="x"), 410)
    assert call(served, again["topic_token"], "submit", ranking=[100]).status_code == 200
    assert served.lease(run) == []


def test_leases_and_rates_have_limits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.service.service.monotonic", lambda: 5.0)
    served = start(most_leases=2, rate=4)
    run = served.open_run()
    assert len(served.lease(run, 9)) == 2
    with served.client(run["run_token"]) as client:
        require_problem(client.post(f"/v1/runs/{run['run']}/topics"), 429, "leased")
        replies = [client.get(f"/v1/runs/{run['run']}") for _ in range(4)]
        assert [reply.status_code for reply in replies] == [200, 200, 429, 429]
        require_problem(replies[2], 429)
        assert int(replies[2].headers["retry-after"]) >= 1
        monkeypatch.setattr("tasks.service.service.monotonic", lambda: 5.5)
        assert [client.get(f"/v1/runs/{run['run']}").status_code for _ in range(3)] == [200, 200, 429]


def test_a_server_with_a_key_asks_for_it(start: Start) -> None:
    served = start(key="a-long-server-key")
    body = {"edition": EDITION, "task": "discovery", "system": {"name": "a", "version": "1", "kind": "closed"}}
    with served.client() as client:
        assert client.get("/v1/health").status_code == 200
        for given in ({}, {"X-Arena-Key": "wrong"}):
            require_problem(client.get("/v1/editions", headers=given), 401)
            require_problem(client.post("/v1/runs", json=body, headers=given), 401)
        key = {"X-Arena-Key": "a-long-server-key"}
        assert client.get("/v1/editions", headers=key).status_code == 200
        assert client.post("/v1/runs", json=body, headers=key).status_code == 201


def test_a_taken_port_is_named() -> None:
    with listen(Address()) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port}: cannot be listened on"):
            listen(Address(port=port))


def test_no_part_of_an_answer_waits_for_the_client_to_confirm_another() -> None:
    with listen(Address()) as sock, socket.create_connection(sock.getsockname()):
        connection, _ = sock.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_others_reach_a_server_only_with_a_key() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "example.org", "::"):
        with pytest.raises(UsageError, match="ARENA_SERVE_KEY"):
            check_address(Address(host), None)
        check_address(Address(host), "key")
    for host in ("127.0.0.1", "localhost", "::1"):
        check_address(Address(host), None)
