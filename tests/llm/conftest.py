"""A scripted endpoint, and settings that make the door quick enough to test."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from schemas.llm import Message, Parameters, Price, Request
from schemas.llm_settings import Cap, LlmSettings
from tests.llm.scripted_server import ScriptedServer

KEY = "sk-very-secret-0123456789"
SECRET = SecretStr(KEY)


class Score(BaseModel):
    """An answer with a form."""

    model_config = ConfigDict(extra="forbid", strict=True)
    score: int = Field(ge=0, le=5)
    why: str


GOOD = '{"score": 3, "why": "it fits"}'


def settings_for(server: ScriptedServer, **changes: Any) -> LlmSettings:
    """Settings for the scripted endpoint; waits are 1 ms, and a token costs a millionth of a dollar."""
    plain: dict[str, Any] = {
        "base_url": server.url,
        "model": "m",
        "retry": {"tries": 3, "base_s": 0.001, "cap_s": 0.05, "timeout_s": 5},
        "prices": {"m": Price(input=1, output=1)},
    }
    return LlmSettings.model_validate(plain | changes)


@pytest.fixture
def settings(server: ScriptedServer) -> Callable[..., LlmSettings]:
    return partial(settings_for, server)


def question(text: str = "What is it?", **more: Any) -> Request[Any]:
    return Request(messages=(Message(role="user", content=text),), stage="test", **more)


def scored(text: str = "How well?", **more: Any) -> Request[Score]:
    return Request(messages=(Message(role="user", content=text),), stage="test", answer=Score, **more)


def capped(usd: float | None = None, tokens: int | None = None) -> dict[str, Any]:
    return {"run": "r", "cap": Cap(usd=usd, tokens=tokens)}


SHORT = Parameters(max_tokens=20)
