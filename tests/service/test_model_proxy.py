"""Chat completions for agents: cached, capped and paid by the run, for its tokens alone."""

import json
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from flows.service.guards import handle_errors
from flows.service.model_proxy import ModelProxy, proxy_routes
from schemas.llm_settings import Cap
from tasks.service.problems import unauthorized
from tests.llm.scripted_server import ScriptedServer, as_json, completion, error

PIXEL = "data:image/png;base64,iVBORw0KGgo="
ASKED: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "Which papers?"}]}
LINKED = {"type": "image_url", "image_url": {"url": "http://h/x"}}
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def client(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("ARENA_LLM_BASE_URL", server.url)
    monkeypatch.setenv("ARENA_LLM_MODEL", "m")
    monkeypatch.setenv("ARENA_LLM_PROVIDER", "scripted")
    monkeypatch.setenv("ARENA_LLM_API_KEY", "sk-the-key")
    prices = {"prices": {"m": {"input": 1000, "output": 1000}}, "retry": {"tries": 1}}
    (tmp_path / "llm.json").write_text(json.dumps(prices))
    monkeypatch.setenv("ARENA_LLM_SETTINGS", str(tmp_path / "llm.json"))
    with open_client(tmp_path) as opened:
        yield opened


@contextmanager
def open_client(root: Path, usd: float | None = None) -> Generator[TestClient]:
    proxy = ModelProxy(root, Cap(usd=usd))

    def find_payer(token: str) -> str:
        if not token.startswith("token-"):
            raise unauthorized()
        return token

    app = FastAPI()
    handle_errors(app)
    app.include_router(proxy_routes(proxy, find_payer))
    with closing(proxy):
        yield TestClient(app)


def ask(client: TestClient, token: str = "token-a", **more: Any) -> Any:
    return client.post("/v1/llm/chat/completions", json=ASKED | more, headers={"Authorization": f"Bearer {token}"})


def test_a_completion_comes_from_the_endpoint_once_and_then_from_the_cache(
    client: TestClient, server: ScriptedServer
) -> None:
    server.play([completion("These.")])
    first, again, other = ask(client), ask(client), ask(client, "token-b")
    assert first.status_code == 200, first.text
    found = first.json()
    assert found["choices"][0]["message"] == {"role": "assistant", "content": "These."}
    assert found["choices"][0]["finish_reason"] == "stop"
    assert found["usage"] == {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    assert found["arena"] == {"source": "provider", "usd": pytest.approx(0.11), "outcome": "ok"}
    assert [reply.json()["arena"]["source"] for reply in (again, other)] == ["cache", "cache"]
    assert len(server.seen) == 1
    sent = server.seen[0].json
    assert (sent["model"], sent["temperature"], sent["seed"]) == ("m", 0.0, 42)
    assert "sk-the-key" not in first.text


def test_tools_and_their_results_go_both_ways(client: TestClient, server: ScriptedServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    told = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [told], "usage": usage}
    server.play([as_json(body), completion("Done.")])
    first = ask(client, tools=[TOOL], tool_choice="auto").json()["choices"][0]
    assert (first["finish_reason"], first["message"]["tool_calls"]) == ("tool_calls", [call])
    turns = [*ASKED["messages"], first["message"], {"role": "tool", "tool_call_id": "c1", "content": "[]"}]
    second = ask(client, tools=[TOOL], messages=turns).json()["choices"][0]
    assert second["message"]["content"] == "Done."
    assert server.seen[1].json["messages"][-1]["tool_call_id"] == "c1"
    assert server.seen[0].json["tool_choice"] == "auto"


def test_a_run_is_stopped_at_its_cap_and_others_go_on(
    client: TestClient, server: ScriptedServer, tmp_path: Path
) -> None:
    server.play(lambda seen, number: completion(f"answer {number}"))
    with open_client(tmp_path, usd=6) as capped:
        replies = [ask(capped, messages=[{"role": "user", "content": str(i)}]) for i in range(60)]
        assert replies[0].status_code == 200
        refused = replies[-1]
        assert (refused.status_code, refused.json()["quota"]) == (429, "usd")
        assert ask(capped, "token-b", messages=[{"role": "user", "content": "another"}]).status_code == 200


def test_pictures_and_forms_of_answers_are_passed_on(client: TestClient, server: ScriptedServer) -> None:
    server.play([completion('{"papers": [1]}')])
    schema = {"type": "object", "properties": {"papers": {"type": "array"}}}
    parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    form = {"type": "json_schema", "json_schema": {"name": "Papers", "schema": schema}}
    found = ask(client, messages=[{"role": "user", "content": parts}], response_format=form)
    assert found.status_code == 200, found.text
    assert json.loads(found.json()["choices"][0]["message"]["content"]) == {"papers": [1]}
    sent = server.seen[0].json
    assert sent["messages"][-1]["content"][1]["image_url"]["url"] == PIXEL
    assert "Papers" in json.dumps(sent["response_format"])


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"stream": True}, "stream"),
        ({"n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"model": "of-no-known-price"}, "model"),
        ({"api_key": "x"}, "api_key"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://h/x"}}]}]},
            "messages",
        ),
    ],
)
def test_what_cannot_be_passed_on_is_refused_by_name(
    client: TestClient, server: ScriptedServer, more: dict[str, Any], named: str
) -> None:
    refused = ask(client, **more)
    assert refused.status_code == 422
    assert named in refused.text
    assert not server.seen


def test_only_tokens_of_runs_are_answered(client: TestClient, server: ScriptedServer) -> None:
    assert ask(client, "forged").status_code == 401
    assert client.post("/v1/llm/chat/completions", json=ASKED).status_code == 401
    assert not server.seen


def test_a_failing_endpoint_is_a_refusal_that_shows_nothing_of_it(client: TestClient, server: ScriptedServer) -> None:
    server.play([error(500, "internal secret of the endpoint")])
    refused = ask(client)
    assert refused.status_code == 502
    assert "secret" not in refused.text


def test_without_an_endpoint_agents_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARENA_LLM_BASE_URL", "ARENA_LLM_API_KEY", "OPENAI_API_KEY", "ARENA_LLM_REPLAY"):
        monkeypatch.delenv(name, raising=False)
    with open_client(tmp_path) as client:
        assert ask(client).status_code == 503
