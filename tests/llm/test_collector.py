"""The garbage collector rests while doors are open, and is given back as it was."""

import asyncio
import gc
from typing import Any

from tasks.llm.collector import THRESHOLDS
from tasks.llm.door import Door
from tests.llm.conftest import SECRET, question
from tests.llm.scripted_server import ScriptedServer, completion


def test_the_collector_is_as_before_once_the_last_door_is_closed(server: ScriptedServer, settings: Any) -> None:
    server.play([completion("fine")])
    before = gc.get_threshold(), gc.get_freeze_count()

    async def ask() -> None:
        first, second = Door(settings(), SECRET), Door(settings(), SECRET)
        assert gc.get_threshold() == before[0], "nothing was sent yet"
        for door in (first, second):
            await door.ask(question())
        await first.close()
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > before[1]
        await second.close()

    asyncio.run(ask())
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
