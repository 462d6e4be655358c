"""Language models for agents from outside: chat completions through the project's door, paid by the agent's run."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from flows.pipeline.models import choose_model, model_access
from flows.service.guards import answer, bearer
from schemas.errors import ArenaError, BadInput, ModelError, OverBudget, TransientError, UsageError
from schemas.llm import Reply
from schemas.llm import Request as ModelRequest
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.asker import open_door
from tasks.llm.blocking import BlockingDoor
from tasks.llm.chat import ChatRequest, completion_of
from tasks.service.problems import Refused

log = logging.getLogger(__name__)

STAGE = "proxy"
"""Name under which the calls of agents are summed."""

DEFAULT = "default"
"""What an agent asks for to get the machine's model."""

MOST_DOORS = 64
"""Connections that are kept open."""

UNLIMITED = Cap()


class _Opened(NamedTuple):
    door: BlockingDoor
    stack: ExitStack


class ModelProxy:
    """Answers chat completions through the door: from sealed replies, the cache or the endpoint, within the run's cap.

    Args:
        root: Folder of the store, which holds cache and spending.
        cap: What a run may spend.
    """

    def __init__(self, root: Path, cap: Cap = UNLIMITED) -> None:
        self._root, self._cap = root, cap
        self._doors: OrderedDict[tuple[str, str], _Opened] = OrderedDict()
        self._lock = Lock()

    def complete(self, run: str, asked: ChatRequest) -> dict[str, Any]:
        """Returns a chat completion. Several threads may call it at once.

        Args:
            run: Name of the run that pays.
            asked: The request.

        Raises:
            Refused: No model is set up, the cap is reached, a member of the request cannot be used, or the endpoint
                fails.
        """
        try:
            model = choose_model(self._root, None if asked.model == DEFAULT else asked.model)
            reply = self._ask(run, asked.read(STAGE, model.model))
        except OverBudget as error:
            raise _spent() from error
        except UsageError as error:
            raise Refused(503, "This server has no language model for agents.") from error
        except BadInput as error:
            raise Refused(422, str(error), field=str(error).partition(":")[0]) from error
        except (ModelError, TransientError) as error:
            raise Refused(502, "The language model cannot be asked now.", 10) from error
        if reply.outcome == "over_budget":
            raise _spent()
        if reply.outcome == "failed":
            raise Refused(502, "The language model failed to answer; ask again.", 1)
        return completion_of(reply)

    def _ask(self, run: str, asked: ModelRequest[BaseModel]) -> Reply[BaseModel]:
        try:
            return self._open(run, str(asked.model)).ask(asked)
        except BadInput as error:
            log.warning("model %s: %s", asked.model, error)
            raise BadInput("model: this server cannot ask it so; ask for another, or for `default`") from error

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            while self._doors:
                _close(self._doors.popitem()[1])

    def _open(self, run: str, model: str) -> BlockingDoor:
        with self._lock:
            key = (run, model)
            if key not in self._doors:
                access = model_access(self._root, BudgetSettings(run=run, cap=self._cap))
                stack = ExitStack()
                self._doors[key] = _Opened(
                    stack.enter_context(open_door(access, choose_model(self._root, model))), stack
                )
                if len(self._doors) > MOST_DOORS:
                    _close(self._doors.popitem(last=False)[1])
            self._doors.move_to_end(key)
            return self._doors[key].door


def _spent() -> Refused:
    return Refused(429, "The run's budget for language models is spent.", quota="usd")


def _close(opened: _Opened) -> None:
    try:
        opened.stack.close()
    except ArenaError:
        return  # too many calls failed: each was answered as such


def proxy_routes(proxy: ModelProxy, find_payer: Callable[[str], str]) -> APIRouter:
    """Returns the route `/v1/llm/chat/completions`.

    Args:
        proxy: Answers.
        find_payer: Returns the run of a token, which may be that of a run or of one of its topics; refuses others.
    """
    router = APIRouter()

    @router.post("/v1/llm/chat/completions", tags=["models"], response_model=dict[str, Any])
    async def complete(request: Request, body: ChatRequest) -> Response:
        """Asks a language model, as OpenAI's chat completions do; calls are cached, capped and paid by the run."""
        run = find_payer(bearer(request))
        return answer(await run_in_threadpool(proxy.complete, run, body))

    return router
