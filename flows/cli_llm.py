"""Commands about language models.

What belongs here: options and printing. What does not: asking models (`tasks/llm`), the stand-in (`tasks/standin`).
"""

import sys
from typing import Annotated

from flows.cli_build import FLAT
from schemas.errors import UsageError
from tasks.standin.server import NAME, StandIn, StandInSettings


def stand_in(*, settings: Annotated[StandInSettings | None, FLAT] = None) -> None:
    """Answer this project's prompts by rule, as an OpenAI-compatible endpoint on this machine, until interrupted.

    Standard output gets the lines of the environment that send a run to it. What it touches says `stand-in`: it shows
    that everything works, and nothing about language models.
    """
    try:
        server = StandIn(settings or StandInSettings())
    except OSError as error:
        raise UsageError(f"the stand-in cannot listen ({error}); choose another --host or --port") from error
    with server:
        lines = {"BASE_URL": server.url, "MODEL": NAME, "PROVIDER": NAME, "API_KEY": "none"}
        sys.stdout.write("".join(f"export ARENA_LLM_{name}={value}\n" for name, value in lines.items()))
        sys.stdout.flush()
        try:
            server.wait()
        except KeyboardInterrupt:
            return
