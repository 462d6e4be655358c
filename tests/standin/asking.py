"""Askers for tests: of the stand-in, or of a scripted server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr

from schemas.llm import LlmSettings, ModelName
from tasks.llm.asker import Asker
from tasks.llm.blocking import BlockingDoor
from tasks.standin.server import NAME

QUICK = {"tries": 2, "base_s": 0.001, "cap_s": 0.01, "timeout_s": 20}


@contextmanager
def door_to(url: str, **changes: Any) -> Iterator[BlockingDoor]:
    """A door that gives up quickly; it names its model `stand-in` whatever is behind the URL."""
    plain = {"base_url": url, "provider": NAME, "model": NAME, "retry": QUICK}
    with BlockingDoor(LlmSettings.model_validate(plain | changes), SecretStr("none")) as door:
        yield door


def asker_of(door: BlockingDoor, subject: str = "1") -> Asker:
    return Asker(door, "run", ModelName(provider=NAME, model=NAME), subject)
