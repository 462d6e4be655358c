"""Asks a stand-in 60 questions, eight at once: `python killed_process.py URL CACHE`."""

import sys
from pathlib import Path

from pydantic import SecretStr

from schemas.llm import ModelName
from schemas.llm_settings import LlmAccess, LlmSettings
from tasks.demo.standin.server import NAME
from tasks.llm.asker import Asker, in_threads, open_door

QUESTIONS = 60
AT_ONCE = 8


def ask_all(url: str, cache: Path) -> list[str]:
    settings = LlmSettings(base_url=url, provider=NAME, model=NAME, cache=cache, concurrency=AT_ONCE)
    access, model = LlmAccess(settings, SecretStr("none")), ModelName(provider=NAME, model=NAME)
    with open_door(access, model) as door:

        def ask(number: int) -> str:
            return Asker(door, "run", model, str(number)).ask("zero_shot", {"title": f"Gulls {number}"}).text

        return in_threads(ask, range(QUESTIONS), access)


if __name__ == "__main__":
    ask_all(sys.argv[1], Path(sys.argv[2]))
