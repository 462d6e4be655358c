"""Askers for tests: of the stand-in, or of a scripted server."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr

from schemas.llm import ModelName
from schemas.llm_settings import LlmAccess, LlmSettings
from tasks.demo.standin.recognition import read_question
from tasks.demo.standin.rule import Asked
from tasks.demo.standin.server import NAME
from tasks.llm.asker import Asker
from tasks.llm.blocking import BlockingDoor
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion, error

QUICK = {"tries": 2, "base_s": 0.001, "cap_s": 0.01, "timeout_s": 20}


def access_to(url: str, **changes: Any) -> LlmAccess:
    """An endpoint that is given up quickly; it names its model `stand-in` whatever is behind the URL."""
    plain = {"base_url": url, "provider": NAME, "model": NAME, "retry": QUICK}
    return LlmAccess(LlmSettings.model_validate(plain | changes), SecretStr("none"))


@contextmanager
def door_to(url: str, **changes: Any) -> Generator[BlockingDoor]:
    """The door to it."""
    access = access_to(url, **changes)
    with BlockingDoor(access.settings, access.api_key) as door:
        yield door


def asker_of(door: BlockingDoor, subject: str = "1") -> Asker:
    return Asker(door, "run", ModelName(provider=NAME, model=NAME), subject)


Line = str | Answer


class ScriptedModel:
    """A model whose words are set by prompt: one text for all, a list in order (the last repeats), or a function.

    `asked` are the questions that it got over HTTP, as the stand-in would read them.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self.asked: list[Asked] = []
        self._words: dict[str, Line | list[Line] | Callable[[Asked], Line]] = {}
        self._otherwise: Line = error(500, "no words")
        server.play(lambda seen, _: self._answer(seen))

    def says(self, otherwise: Line = "", **words: Line | list[Line] | Callable[[Asked], Line]) -> None:
        self._words, self._otherwise = words, otherwise or error(500, "no words")

    def count(self, prompt: str) -> int:
        return sum(asked.prompt == prompt for asked in self.asked)

    def _answer(self, seen: Seen) -> Answer:
        asked = read_question(seen.json)
        told = self._words.get(asked.prompt, self._otherwise)
        if isinstance(told, list):
            told = told[min(self.count(asked.prompt), len(told) - 1)]
        elif callable(told):
            told = told(asked)
        self.asked.append(asked)
        return told if isinstance(told, Answer) else completion(told)
