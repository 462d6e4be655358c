"""Reads from the environment how this machine reaches a language model."""

import os
import tomllib
from pathlib import Path
from typing import Any

import orjson
from pydantic import SecretStr, ValidationError

from flows.pipeline.secrets import learn_environment
from schemas.errors import UsageError
from schemas.llm import ModelName, Rehearsed
from schemas.llm_settings import BudgetSettings, LlmAccess, LlmSettings
from schemas.messages import describe

UNNAMED = "unnamed"
"""Placeholder when the environment names no model; a stage always names its own."""


def model_access(
    root: Path, budget: BudgetSettings | None = None, rehearsal: dict[str, Rehearsed] | None = None
) -> LlmAccess | None:
    """Returns the endpoint that the environment sets up; None: it sets up none.

    `ARENA_LLM_BASE_URL` (default: OpenAI's), `ARENA_LLM_API_KEY` (or `OPENAI_API_KEY`), `ARENA_LLM_MODEL`,
    `ARENA_LLM_PROVIDER` (the endpoint's name in results; default: its host), `ARENA_LLM_REPLAY` (a sealed file to
    answer from), `ARENA_LLM_CACHE` (default: `llm/calls.sqlite` in the store), `ARENA_LLM_CACHE_SALT` (another word
    asks everything again), `ARENA_LLM_SETTINGS` (a TOML or JSON file with further members of `LlmSettings`: rates,
    retries, prices, profiles of models).

    Args:
        root: Folder of the store.
        budget: Spending caps, and the name under which spending is summed.
        rehearsal: Where calls are noted instead of being sent; None: they are sent.

    Raises:
        UsageError: A variable or the settings file is invalid.
    """
    learn_environment()
    key = os.environ.get("ARENA_LLM_API_KEY") or os.environ.get("OPENAI_API_KEY")
    names = ("base_url", "provider", "model", "replay", "cache", "cache_salt")
    given: dict[str, Any] = {name: value for name in names if (value := os.environ.get(f"ARENA_LLM_{name.upper()}"))}
    if not key and not given.keys() & {"base_url", "replay"}:
        return None
    settings = {"model": UNNAMED, "cache": default_cache(root)} | _settings_file() | given
    if budget:
        own = budget.model_dump(exclude_none=True, exclude_defaults=True)
        settings["budget"] = _merged(settings.get("budget"), own)
    try:
        return LlmAccess(LlmSettings.model_validate(settings), SecretStr(key) if key else None, rehearsal)
    except ValidationError as error:
        told = os.environ.get("ARENA_LLM_SETTINGS")
        where = f"ARENA_LLM_... and {told}" if told else "ARENA_LLM_..."
        raise UsageError(
            f"the environment ({where}) sets up no usable endpoint: {describe(error)}; correct it"
        ) from None


def _merged(ours: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of a settings file with those that are given in their place, also inside of members."""
    found: dict[str, Any] = dict(ours) if isinstance(ours, dict) else {}
    for name, value in given.items():
        found[name] = _merged(found.get(name), value) if isinstance(value, dict) else value
    return found


def default_cache(root: Path) -> Path:
    """Returns the file that caches replies when the environment names no other."""
    return root / "llm" / "calls.sqlite"


def choose_model(root: Path, model: str | None) -> ModelName:
    """Returns the model of a run: the given one, or else the machine's.

    Raises:
        UsageError: No endpoint is set up, or no model is named.
    """
    access = model_access(root)
    if access is None:
        raise UsageError(
            "no language model is set up; set ARENA_LLM_BASE_URL and ARENA_LLM_API_KEY, or ARENA_LLM_REPLAY; "
            "offline: arena llm stand-in"
        )
    name = access.settings.model_name
    chosen = name.model_copy(update={"model": model}) if model else name
    if chosen.model == UNNAMED:
        raise UsageError("which model? set --model or ARENA_LLM_MODEL")
    return chosen


def _settings_file() -> dict[str, Any]:
    if not (path := os.environ.get("ARENA_LLM_SETTINGS")):
        return {}
    try:
        content = Path(path).read_bytes()
        found = tomllib.loads(content.decode()) if path.endswith(".toml") else orjson.loads(content)
    except (OSError, ValueError) as error:
        kind = "TOML" if path.endswith(".toml") else "JSON"
        raise UsageError(f"ARENA_LLM_SETTINGS={path}: not a readable {kind} file ({error}); correct it") from error
    if not isinstance(found, dict):
        raise UsageError(f"ARENA_LLM_SETTINGS={path}: no JSON object; write one with members of LlmSettings")
    return found
