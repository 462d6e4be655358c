"""The stand-in over real HTTP: what the door gets of it, what it refuses, what it notes."""

import hashlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from schemas.errors import ArenaError
from schemas.llm import Parameters, Request
from schemas.llm_settings import LlmSettings
from tasks.demo.standin import rule
from tasks.demo.standin.rule import Asked, ToolCall
from tasks.demo.standin.server import StandIn, StandInSettings
from tasks.llm.blocking import BlockingDoor
from tasks.llm.prompt import load_prompt


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StandIn]:
    with StandIn(StandInSettings(log=tmp_path / "log.jsonl", max_body_bytes=10_000)) as server:
        yield server


def question(title: str = "Gulls: a survey of the sea", **parameters: Any) -> Request:
    prompt = load_prompt("zero_shot")
    return Request(
        messages=prompt.render({"title": title}), stage="t", prompt=prompt.ref, parameters=Parameters(**parameters)
    )


def door(server: StandIn, **changes: Any) -> BlockingDoor:
    return BlockingDoor(LlmSettings(base_url=server.url, model="stand-in", **changes), SecretStr("any"))


def post(server: StandIn, body: bytes, path: str = "/v1/chat/completions") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=10)
    connection.request("POST", path, body, {"authorization": "Bearer x"})
    reply = connection.getresponse()
    return reply.status, reply.read()


def body(**changes: Any) -> bytes:
    messages = [{"role": message.role, "content": message.content} for message in question().messages]
    return json.dumps({"model": "stand-in", "messages": messages} | changes).encode()


def test_the_door_gets_answers_usage_and_the_name_of_the_stand_in(server):
    with door(server) as asking:
        reply = asking.ask(question())
        cut = asking.ask(question(max_tokens=1))
    assert (reply.outcome, reply.text, reply.model) == ("ok", "gulls sea", "stand-in")
    assert reply.usage.tokens.output == 3 and reply.usage.tokens.input > 50
    assert reply.usage.nano_usd == 0 and not reply.usage.estimated
    assert cut.text == "gull" and json.loads(cut.raw)["choices"][0]["finish_reason"] == "length"


def test_equal_questions_get_equal_bytes_from_many_threads(server):
    with ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(lambda _: post(server, body()), range(64)))
    assert len(answers) == 1 and answers.pop()[0] == 200


def test_the_log_tells_every_answered_question_by_the_digest_of_its_body(server):
    assert [post(server, sent)[0] for sent in (body(), body(seed=1), body(model="gpt-4o"), b"{")] == [
        200,
        200,
        404,
        400,
    ]
    lines = [json.loads(line) for line in server.settings.log.read_text().splitlines()]
    digests = [hashlib.sha256(sent).hexdigest() for sent in (body(), body(seed=1))]
    assert lines == [{"sha256": digest, "prompt": "zero_shot"} for digest in digests]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (body(model="gpt-4o"), 404, "its only one is 'stand-in'"),
        (body(stream=True), 400, "does not stream"),
        (body(messages=[{"role": "user", "content": "Hello"}]), 400, "no prompt file begins with 'Hello'"),
        (b"[]", 400, "JSON object"),
        (b"no json", 400, ""),
        (b" " * 10_001, 413, "at most 10000 bytes"),
    ],
)
def test_what_it_cannot_answer_is_an_error_that_says_why(server, sent, status, words):
    found, told = post(server, sent)
    assert found == status and words in json.loads(told)["error"]["message"]


def test_another_model_than_the_stand_in_is_never_played(server):
    settings = LlmSettings(base_url=server.url, model="gpt-4o")
    with BlockingDoor(settings, SecretStr("any")) as asking, pytest.raises(ArenaError, match="gpt-4o"):
        asking.ask(question())


def test_tools_are_called_when_the_rule_says_so(server, monkeypatch):
    def look_up(asked: Asked) -> ToolCall:
        return ToolCall(asked.tools[0] if asked.tools else "none", {"query": asked.first("title")})

    monkeypatch.setitem(server._rules, "zero_shot", look_up)
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    choice = json.loads(post(server, body(tools=[tool]))[1])["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    function = choice["message"]["tool_calls"][0]["function"]
    assert function["name"] == "search"
    assert json.loads(function["arguments"]) == {"query": "Gulls: a survey of the sea"}
    assert post(server, body())[0] == 400


def test_token_probabilities_are_those_of_a_rule(server):
    told = json.loads(post(server, body(logprobs=True, top_logprobs=2))[1])["choices"][0]
    assert [(token["token"], token["logprob"]) for token in told["logprobs"]["content"]] == [
        ("gulls", 0.0),
        (" sea", 0.0),
    ]


def test_a_rule_that_fails_is_an_error_and_no_answer(server, monkeypatch):
    monkeypatch.setitem(server._rules, "zero_shot", lambda asked: 1 / 0)
    assert post(server, body())[0] == 422 and not server.settings.log.exists()


def test_two_rules_for_one_prompt_are_refused():
    with pytest.raises(ValueError, match="zero_shot"):
        rule.answers("zero_shot")(lambda asked: "")


def test_the_command_prints_the_environment_that_sends_runs_to_it():
    command = [sys.executable, "-m", "flows.cli", "llm", "stand-in"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        lines = dict(process.stdout.readline().removeprefix("export ").strip().split("=") for _ in range(4))
        address = lines.pop("ARENA_LLM_BASE_URL").removeprefix("http://").removesuffix("/v1")
        assert lines == {"ARENA_LLM_MODEL": "stand-in", "ARENA_LLM_PROVIDER": "stand-in", "ARENA_LLM_API_KEY": "none"}
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", "/v1/models")
        assert json.load(connection.getresponse())["data"][0]["id"] == "stand-in"
    finally:
        process.terminate()
        process.wait()
