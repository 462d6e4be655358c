"""The model endpoint that the environment variables set up."""

import json
from pathlib import Path

import pytest

from flows.pipeline.models import choose_model, model_access
from schemas.errors import UsageError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE_URL", "API_KEY", "MODEL", "PROVIDER", "REPLAY", "CACHE", "SETTINGS"):
        monkeypatch.delenv(f"ARENA_LLM_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_without_key_and_endpoint_there_is_no_access_and_the_error_says_what_to_set(tmp_path: Path):
    assert model_access(tmp_path) is None
    with pytest.raises(UsageError, match="ARENA_LLM_BASE_URL and ARENA_LLM_API_KEY"):
        choose_model(tmp_path, "gpt-4o")


def test_a_key_alone_means_openai_and_is_in_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    access = model_access(tmp_path)
    assert access and access.settings.provider_name == "api.openai.com"
    assert access.settings.cache == tmp_path / "llm" / "calls.sqlite"
    assert "very-secret" not in repr(access) + access.settings.model_dump_json()
    with pytest.raises(UsageError, match="which model"):
        choose_model(tmp_path, None)
    assert choose_model(tmp_path, "gpt-4o").model == "gpt-4o"


def test_the_settings_file_goes_below_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "llm.json"
    file.write_text(json.dumps({"model": "from-file", "concurrency": 3}))
    monkeypatch.setenv("ARENA_LLM_SETTINGS", str(file))
    monkeypatch.setenv("ARENA_LLM_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("ARENA_LLM_MODEL", "from-variable")
    access = model_access(tmp_path)
    assert access and (access.settings.model, access.settings.concurrency) == ("from-variable", 3)


@pytest.mark.parametrize("content", ["[1]", "{", '{"modle": 1}', '{"base_url": "https://user:sk-very-secret@host/v1"}'])
def test_an_unusable_settings_file_is_one_error_without_its_values(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "llm.json"
    file.write_text(content)
    monkeypatch.setenv("ARENA_LLM_SETTINGS", str(file))
    monkeypatch.setenv("ARENA_LLM_API_KEY", "x")
    with pytest.raises(UsageError, match="ARENA_LLM") as error:
        model_access(tmp_path)
    assert "very-secret" not in str(error.value)
