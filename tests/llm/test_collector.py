"""The garbage collector rests while doors are open, and is given back as it was."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tasks.llm import collector
from tasks.llm.collector import THRESHOLDS
from tasks.llm.door import Door
from tests.llm.conftest import SECRET, question
from tests.llm.scripted_server import ScriptedServer, completion

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def no_open_door(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hides the doors that fixtures of other tests keep open in this process."""
    before = gc.get_threshold()
    monkeypatch.setattr(collector, "_usual", [])
    gc.unfreeze()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_the_collector_is_as_before_once_the_last_door_is_closed(server: ScriptedServer, settings: Any) -> None:
    server.play([completion("fine")])

    async def ask() -> None:
        first, second = Door(settings(), SECRET), Door(settings(), SECRET)
        assert gc.get_threshold() == USUAL, "nothing was sent yet"
        for door in (first, second):
            await door.ask(question())
        await first.close()
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
        await second.close()

    asyncio.run(ask())
    assert (gc.get_threshold(), gc.get_freeze_count()) == (USUAL, 0)
