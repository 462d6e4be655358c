"""Profiles: what a model refuses or needs decides what is sent, and is part of the key; plain requests keep theirs."""

import asyncio
import json

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.pipeline.models import model_access
from schemas.errors import BadInput, UsageError
from schemas.llm import Image, Message, ModelName, Parameters, Reply, Request, Tool
from schemas.llm_profile import ModelProfile
from schemas.llm_settings import LlmSettings
from schemas.mindmap import MapAnswer
from tasks.corpus.figures.maps import FigureTree
from tasks.corpus.survey_selector import SurveyAnswer
from tasks.llm.door import Door
from tasks.llm.filled_prompt import FilledPrompt
from tasks.llm.profiles import Profiles, builtin_profiles
from tasks.llm.structured import answer_schema
from tasks.search.judge import Paper, find_judge
from tests.llm.conftest import GOOD, SECRET, SHORT, question, scored
from tests.llm.scripted_server import Answer, Seen, completion, error


def ask(settings: LlmSettings, *requests: Request) -> list[Reply]:
    async def many() -> list[Reply]:
        async with Door(settings, SECRET) as door:
            return [await door.ask(request) for request in requests]

    return asyncio.run(many())


def keyed(settings: LlmSettings, request: Request):
    return Door(settings).prepare(request).keyed


PLAIN_KEYS = {
    ("m", "localhost"): ["94d5717bcee177db", "78573bb2a451c028", "5f3c8a600beb8cd9", "0da059aa0f8219d2"],
    ("stand-in", "stand-in"): ["25bcbe87aad4fc35", "77e3241480a2c5d0", "8d5fd868dcc99f67", "e4fc743e33b92e67"],
    ("gpt-4o-mini", "api.openai.com"): ["79e7269212214cbc", "0ed9325f27783666", "31cd6b5e2b42dd51", None],
    ("gemini-2.5-flash", "generativelanguage.googleapis.com"): [
        *("1a65af428be9bdcb", "6b5f3db591bdb30f", "cf614bfbcd54cf49", "4e86bc41eb4645ab"),
    ],
}
"""Keys from before there were profiles; OpenAI has always refused the form of the last question (minLength)."""


@pytest.mark.parametrize(("model", "provider"), PLAIN_KEYS)
def test_requests_that_need_no_profile_keep_the_keys_that_replies_are_stored_under(model: str, provider: str):
    name = ModelName(provider=provider, model=model)
    serving = Parameters(top_p=1, top_logprobs=20, extra={"skip_special_tokens": False})
    requests = [
        Request(messages=(Message(role="user", content="What is it?"),), stage="t"),
        Request(messages=(Message(role="user", content="What is it?"),), stage="t", parameters=serving),
        FilledPrompt("survey_verdict", {"title": "A survey of mice", "abstract": "Mice."}, SurveyAnswer).request(
            name, "surveys"
        ),
        find_judge("paper_lantern").request("mice", Paper("Mice", "About mice"), name),
    ]
    found = [keyed(LlmSettings(model=model, provider=provider), request).key[:16] for request in requests]
    for key, known in zip(found, PLAIN_KEYS[model, provider], strict=True):
        assert known in (key, None)


def refusing(*names: str):
    """An endpoint that answers 400 to requests with these members."""

    def script(seen: Seen, number: int) -> Answer:
        for name in names:
            if name in seen.json:
                return error(400, f"Unsupported parameter: '{name}' is not supported with this model.")
        return completion(GOOD if "response_format" in seen.json else "fine")

    return script


def test_parameters_that_a_model_refuses_are_not_sent_and_leave_the_key(server, settings):
    server.play(refusing("temperature", "seed", "max_tokens"))
    plain = settings()
    told = {"refuses": ["temperature", "seed"], "token_field": "max_completion_tokens"}
    fitting = settings(profiles={"mine": told})
    (failed,), replies = ask(plain, question()), ask(fitting, question(), scored())
    assert (failed.outcome, [reply.outcome for reply in replies]) == ("failed", ["ok", "ok"])
    assert server.seen[-1].json["max_completion_tokens"] == 512
    assert json.loads(keyed(fitting, question()).parts)["parameters"].keys() == {"max_tokens", "stop", "extra"}
    assert keyed(fitting, question()).key != keyed(plain, question()).key


def test_a_known_reasoning_model_is_asked_as_it_needs(server, settings):
    server.play(refusing("temperature", "max_tokens", "logprobs"))
    settings = settings(provider="openai", model="gpt-5-mini", prices={})
    replies = ask(settings, question(), question(parameters=Parameters(max_tokens=20_000, top_logprobs=5)))
    assert [reply.outcome for reply in replies] == ["ok", "ok"]
    assert [seen.json["max_completion_tokens"] for seen in server.seen] == [4096, 20_000]
    assert server.seen[0].json["seed"] == 42
    assert Profiles(settings.model_copy(update={"model": "gpt-5-chat-latest"})).of("gpt-5-chat-latest").refuses == ()


def test_an_azure_deployment_is_reached_by_its_url_and_key_header(server, settings):
    server.play([completion("fine")])
    url = server.url.replace("/v1", "/openai/deployments/mine/?api-version=2024-10-21")
    (reply,) = ask(settings(base_url=url, provider="azure"), question())
    assert reply.outcome == "ok"
    seen = server.seen[0]
    assert seen.path == "/openai/deployments/mine/chat/completions?api-version=2024-10-21"
    assert (seen.headers["api-key"], "authorization" in seen.headers) == (SECRET.get_secret_value(), False)


@pytest.mark.parametrize("url", ["https://h/v1?key=abc", "https://h/v1?abc", "https://h/v1?api-version=1&sig=2"])
def test_any_other_query_of_the_url_is_refused(url: str):
    with pytest.raises(ValidationError, match="api-version"):
        LlmSettings(model="m", base_url=url)


def test_headers_query_and_body_members_are_sent_and_the_body_alone_is_in_the_key(server, settings):
    server.play([completion("fine")])
    body = {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low"}
    profile = {"models": ["m*"], "headers": {"X-Title": "arena"}, "query": {"v": "2"}, "body": body}
    plain, with_headers = settings(), settings(profiles={"mine": profile | {"body": {}}})
    everything = settings(profiles={"mine": profile})
    own = question(parameters=Parameters(extra={"reasoning_effort": "high"}))
    ask(everything, question(), own)
    assert (server.seen[0].headers["x-title"], server.seen[0].path) == ("arena", "/v1/chat/completions?v=2")
    assert {name: server.seen[0].json[name] for name in body} == body
    assert server.seen[1].json["reasoning_effort"] == "high"
    assert keyed(plain, question()) == keyed(with_headers, question()) != keyed(everything, question())


@pytest.mark.parametrize(
    "wrong",
    [
        {"body": {"temperature": 1}},
        {"body": {"tools": []}},
        {"headers": {"api-key": "x"}},
        {"headers": {"X-A": "b\r\nX-B: c"}},
        {"query": {"key": "a&b"}},
        {"refuses": ["max_tokens"]},
        {"reasoning": True},
    ],
)
def test_what_cannot_be_in_a_profile_is_refused(wrong: dict):
    with pytest.raises(ValidationError):
        ModelProfile.model_validate(wrong)


def test_of_two_profiles_the_later_one_wins_field_by_field_and_the_settings_win_over_both():
    profiles = {
        "all": {"least_tokens": 100, "temperature": 1.0},
        "large": {"models": ["*LARGE"], "least_tokens": 200},
        "elsewhere": {"endpoints": ["*.example.com"], "least_tokens": 300},
    }
    told = {"model": "m", "provider": "here", "profiles": profiles}
    found = Profiles(LlmSettings.model_validate(told | {"token_field": "max_completion_tokens"}))
    assert (found.of("m-Large").least_tokens, found.of("m-Large").temperature) == (200, 1.0)
    assert (found.of("m").least_tokens, found.of("m").token_field) == (100, "max_completion_tokens")
    assert found.names("m-large") == ["all", "large"]


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid")

    minLength: str = Field(min_length=1, max_length=9)  # noqa: N815
    marks: list[int] = Field(max_length=3)
    note: str | None = None


def test_keywords_that_an_endpoint_refuses_are_left_out_and_properties_of_their_names_stay():
    refuses = builtin_profiles()["openai"].schema_refuses
    schema = answer_schema(Named, "json_schema", refuses)["schema"]
    assert schema["properties"]["minLength"] == {"title": "Minlength", "type": "string"}
    assert schema["required"] == ["minLength", "marks"]


def test_a_schema_is_closed_or_told_in_words_where_only_strict_ones_are_taken():
    told = answer_schema(Named, "json_schema", strict_only=True)
    assert (told["strict"], told["schema"]["required"]) == (True, ["minLength", "marks", "note"])
    assert answer_schema(MapAnswer, "json_schema", strict_only=True)["mode"] == "prompt"
    assert answer_schema(FigureTree, "json_schema", strict_only=True)["strict"]


def test_an_answer_is_checked_against_the_keywords_that_were_not_sent(server, settings):
    server.play([completion('{"score": 9, "why": "it fits"}'), completion(GOOD)])
    (reply,) = ask(settings(provider="azure-west"), scored())
    assert (reply.outcome, reply.repaired) == ("ok", True)
    sent = server.seen[0].json["response_format"]["json_schema"]["schema"]
    assert "maximum" not in json.dumps(sent)


@pytest.mark.parametrize(("asked", "sent"), [(512, 512), (4096, 1000 - 334), (4096 * 4, 1000 - 334)])
def test_the_limit_is_lowered_to_what_the_context_leaves(server, settings, asked: int, sent: int):
    server.play([completion("fine")])
    short = settings(profiles={"mine": {"context": 1000}})
    ask(short, question("x" * 1000, parameters=Parameters(max_tokens=asked)))
    assert server.seen[0].json["max_tokens"] == sent


@pytest.mark.parametrize(
    ("profile", "request_", "told"),
    [
        (
            {"images": False},
            Request(
                messages=(Message(role="user", content=("?", Image(media_type="image/png", data=b"x"))),), stage="s"
            ),
            "sends pictures",
        ),
        ({"tools": False}, question(tools=(Tool(name="f", description="", parameters={}),)), "offers functions"),
    ],
)
def test_what_a_model_cannot_do_ends_the_stage_before_anything_is_sent(server, settings, profile, request_, told):
    with pytest.raises(BadInput, match=told):
        ask(settings(profiles={"mine": profile}), request_)
    assert server.seen == []


def test_mistral_gets_its_own_name_of_the_seed(server, settings):
    server.play(refusing("seed"))
    assert ask(settings(provider="mistral"), question(parameters=SHORT))[0].outcome == "ok"
    assert server.seen[0].json["random_seed"] == 42


def test_a_settings_file_in_toml_holds_profiles(tmp_path, monkeypatch):
    file = tmp_path / "models.toml"
    file.write_text('concurrency = 3\n[profiles."my model"]\nmodels = ["m"]\nrefuses = ["seed"]\n')
    monkeypatch.setenv("ARENA_LLM_SETTINGS", str(file))
    monkeypatch.setenv("ARENA_LLM_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("ARENA_LLM_MODEL", "m")
    access = model_access(tmp_path)
    assert access and Profiles(access.settings).of("m").refuses == ("seed",)
    file.write_text("concurrency =")
    with pytest.raises(UsageError, match="TOML"):
        model_access(tmp_path)


def test_a_copy_with_another_provider_has_its_name():
    """A replay file of another endpoint is opened with a copy of the settings."""
    settings = LlmSettings(model="m", provider="here")
    assert settings.provider_name == "here"
    assert settings.model_copy(update={"provider": "there"}).provider_name == "there"
