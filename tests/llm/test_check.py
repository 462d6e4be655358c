"""Probing an endpoint finds what its model takes, and a profile with which it is asked without errors."""

import asyncio
import json
import tomllib

import pytest

from schemas.errors import BadInput, TransientError
from tasks.llm.check import Checked, check_model, read_context, shows_reasoning
from tasks.llm.door import Door
from tasks.llm.profiles import Profiles
from tasks.llm.provider import OpenAiProvider
from tests.llm.conftest import GOOD, SECRET, question, scored
from tests.llm.scripted_server import Answer, Seen, as_json, completion, error

PROBED = '{"word": "yes", "number": 3}'
CALL = {"id": "c", "type": "function", "function": {"name": "note", "arguments": '{"text": "yes"}'}}


def check(settings) -> Checked:
    async def run() -> Checked:
        provider = OpenAiProvider(settings, SECRET)
        try:
            return await check_model(settings, provider)
        finally:
            await provider.close()

    return asyncio.run(run())


def easy(seen: Seen, number: int) -> Answer:
    """An endpoint that takes everything."""
    if seen.path == "/v1/models":
        return as_json({"data": [{"id": "m", "max_model_len": 8192}]})
    if "tools" in seen.json:
        return as_json({"choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}}]})
    if "JSON object" in str(seen.last) or "response_format" in seen.json:
        return completion(PROBED if "number" in json.dumps(seen.json) else GOOD)
    return completion("yes")


def hard(seen: Seen, number: int) -> Answer:
    """One as strict as a reasoning model behind a gateway."""
    if seen.path == "/v1/models":
        return error(404, "none here")
    for name in ("temperature", "logprobs", "max_tokens", "tools"):
        if name in seen.json:
            return error(400, f"Unsupported parameter: '{name}'", "unsupported_parameter")
    if "minLength" in json.dumps(seen.json) and "response_format" in seen.json:
        return error(400, "Invalid schema for response_format: 'minLength' is not permitted.")
    if isinstance(seen.last, list):
        return error(400, "this model does not support image input")
    told = json.loads(easy(seen, number).body)
    told["usage"]["completion_tokens_details"] = {"reasoning_tokens": 64}
    return as_json(told, x_ratelimit_remaining_requests="99", x_ratelimit_reset_requests="1s")


def test_a_plain_endpoint_differs_in_its_context_alone(server, settings):
    server.play(easy)
    checked = check(settings())
    found = dict(checked.findings)
    assert checked.changes == {"context": 8192}
    assert (found["JSON schema"], found["tools"], found["reasoning"]) == ("works", "calls the function", "none seen")
    assert "accepted, but" in found["top_logprobs"]
    assert checked.calls == len(server.seen) - 1 <= 12


def test_the_profile_of_a_strict_endpoint_makes_every_question_work(server, settings):
    server.play(hard)
    checked = check(settings())
    assert (
        checked.changes.items()
        >= {
            "refuses": ["temperature", "top_logprobs"],
            "token_field": "max_completion_tokens",
            "tools": False,
            "images": False,
            "least_tokens": 4096,
        }.items()
    )
    assert "minLength" in checked.changes["schema_refuses"]
    assert dict(checked.findings)["limits"] == "99 requests left"
    pasted = tomllib.loads(checked.toml("m"))["profiles"]
    fitting = settings(profiles=pasted)

    async def both():
        async with Door(fitting, SECRET) as door:
            return [await door.ask(question()), await door.ask(scored())]

    assert [reply.outcome for reply in asyncio.run(both())] == ["ok", "ok"]
    again = check(fitting)
    assert (again.changes, again.applied) == ({}, ["m"])


def test_forms_are_told_in_json_mode_or_in_words_where_nothing_else_works(server, settings):
    def script(seen: Seen, number: int) -> Answer:
        form = seen.json.get("response_format", {}).get("type") if seen.method == "POST" else None
        return error(400, "no") if form in refused else easy(seen, number)

    server.play(script)
    refused = ["json_schema"]
    assert check(settings()).changes["structured"] == "json_object"
    refused = ["json_schema", "json_object"]
    assert check(settings()).changes["structured"] == "prompt"


def test_an_endpoint_that_takes_a_schema_and_ignores_it_is_found_out(server, settings):
    def script(seen: Seen, number: int) -> Answer:
        schema = seen.method == "POST" and seen.json.get("response_format", {}).get("type") == "json_schema"
        return completion("a word and 3") if schema else easy(seen, number)

    server.play(script)
    assert check(settings()).changes["structured"] == "json_object"


@pytest.mark.parametrize(
    ("answer", "raised", "told"),
    [
        (error(401, "no such key"), BadInput, "set a valid key"),
        (error(404, "no such model"), BadInput, "does not know this model"),
        (error(400, "no"), BadInput, "answers no plain question"),
        (error(503, "later"), TransientError, "busy"),
    ],
)
def test_an_endpoint_that_answers_nothing_is_one_error(server, settings, answer, raised, told):
    server.play([answer])
    with pytest.raises(raised, match=told):
        check(settings())


@pytest.mark.parametrize(
    ("listed", "context"),
    [
        ({"data": [{"id": "m", "context_length": 4096}]}, 4096),
        ({"data": [{"id": "m", "meta": {"n_ctx_train": 2048}}]}, 2048),
        ([{"id": "m", "context_length": 1024}], 1024),
        ({"data": [{"id": "other", "context_length": 4096}]}, None),
        ({"data": [{"id": "m", "context_length": "long"}]}, None),
    ],
)
def test_the_context_is_read_from_lists_of_several_servers(listed, context):
    assert read_context(json.dumps(listed).encode(), "m") == context


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ({"content": "yes"}, False),
        ({"content": "yes", "reasoning_content": "hm"}, True),
        ({"content": "<think>hm</think>yes"}, True),
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "yes"}]}, True),
    ],
)
def test_reasoning_is_noticed(message, shown):
    assert shows_reasoning(json.dumps({"choices": [{"message": message}]}).encode()) == shown


def test_the_profile_that_applies_is_compared(server, settings):
    server.play(hard)
    known = settings(provider="openai", model="gpt-5-mini")
    assert Profiles(known).of("gpt-5-mini").least_tokens == 4096
    checked = check(known)
    assert checked.applied == ["openai", "openai-reasoning"]
    assert checked.changes == {"tools": False, "images": False, "refuses": ["temperature", "top_logprobs"]}
