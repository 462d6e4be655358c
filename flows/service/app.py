"""The REST door: routes of the served desk, with OpenAPI."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from flows.service.guards import Guard, answer, bearer, handle_errors, require_key
from flows.service.mcp_door import McpDoor
from flows.service.model_proxy import ModelProxy, proxy_routes
from flows.service.tools import SUBMIT, openai_tools
from schemas import service
from schemas.submission import Submission
from tasks.service.calls import CALLS, TopicCall
from tasks.service.service import DeskService

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": service.Problem, "description": told, "content": {"application/problem+json": {}}}
    for status, told in {
        401: "No token, or an unknown one.",
        404: "It does not exist, or the topic may not see it: one answer for both.",
        409: "Done already.",
        410: "The lease has ended.",
        413: "The body has more than 1 MiB.",
        422: "A field cannot be used; it is named.",
        429: "A quota (named) is used up, or there are too many requests (Retry-After).",
    }.items()
}

EXAMPLE_TOKEN = "q1yY0V5m7o2d9kM3..."  # noqa: S105

ABOUT = """
Open a run (`POST /v1/runs`), lease topics with its token (`POST /v1/runs/{run}/topics`), answer each with the token of
the topic (`/v1/search` ...), hand in (`/v1/submit`), and finish the run. A topic's token knows the day before which
papers must be published; no request says it. The same calls are MCP tools at `/mcp`.
"""

Endpoint = Callable[..., Coroutine[Any, Any, Response]]


def make_app(
    desk: DeskService, key: str | None = None, *, local: bool = True, models: ModelProxy | None = None
) -> FastAPI:
    """Returns the app that serves a desk over REST and MCP.

    Args:
        desk: The desk; it is closed when the app ends.
        key: What `X-Arena-Key` must be to list editions and open runs; None: nothing.
        models: Answers chat completions of agents; None: there is no such route.
        local: Whether only requests to this machine's own names are for it, which keeps pages of browsers out.
    """
    door = McpDoor(desk, local=local)

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncGenerator[None]:
        async with door.run():
            yield
        if models:
            models.close()
        desk.close()

    app = FastAPI(
        title="The served desk", description=ABOUT, version=version("research-arena"), lifespan=live, responses=PROBLEMS
    )
    handle_errors(app)
    app.add_middleware(Guard)
    _add_general(app, desk, key)
    _add_runs(app, desk, key)
    for call in CALLS:
        app.post(
            f"/v1/{call.name}",
            response_model=call.answer,
            summary=call.tool,
            description=call.body.__doc__ or "",
            tags=["topics"],
            openapi_extra=_secured("topic token"),
        )(_topic_endpoint(desk, call))
    _add_submit(app, desk)
    if models:
        app.include_router(proxy_routes(models, desk.find_payer))
    app.router.add_route("/mcp", cast(Any, door), include_in_schema=False)  # an ASGI app, of any method
    return app


def _secured(what: str) -> dict[str, Any]:
    told = {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}}
    return {"parameters": [{**told, "description": f"Bearer, with a {what}", "example": f"Bearer {EXAMPLE_TOKEN}"}]}


def _add_general(app: FastAPI, desk: DeskService, key: str | None) -> None:
    @app.get("/v1/health", response_model=service.Health, tags=["server"])
    async def health() -> Response:
        """Says that the server answers."""
        return answer({"status": "ok", "version": version("research-arena")})

    @app.get("/v1/tools.json", tags=["server"], response_model=list[dict[str, Any]])
    async def tools() -> Response:
        """Returns the calls of topics as OpenAI function definitions."""
        return answer(openai_tools())

    @app.get("/v1/editions", response_model=service.EditionList, tags=["server"])
    async def editions(request: Request) -> Response:
        """Lists the editions, and how many topics each task has."""
        require_key(request, key)
        return answer(await desk.list_editions())


def _add_runs(app: FastAPI, desk: DeskService, key: str | None) -> None:
    secured = _secured("run token")

    @app.post("/v1/runs", response_model=service.OpenedRun, status_code=201, tags=["runs"])
    async def open_run(request: Request, body: service.NewRun) -> Response:
        """Opens a run. Its name, `<system>@<version>`, is unique in an edition."""
        require_key(request, key)
        return answer(await desk.open_run(body), 201)

    @app.post("/v1/runs/{run}/topics", response_model=service.LeasedTopics, tags=["runs"], openapi_extra=secured)
    async def lease(request: Request, run: str, body: service.Lease | None = None) -> Response:
        """Leases topics; an empty list when nothing is left. A lease that ends gives its topic back."""
        found = desk.require_run(bearer(request), run)
        return answer(await desk.lease(found, (body or service.Lease()).n))

    @app.get("/v1/runs/{run}", response_model=service.RunStatus, tags=["runs"], openapi_extra=secured)
    async def status(request: Request, run: str) -> Response:
        """Says how far a run is."""
        return answer(desk.status(desk.require_run(bearer(request), run)))

    @app.post("/v1/runs/{run}/finish", response_model=service.RunStatus, tags=["runs"], openapi_extra=secured)
    async def finish(request: Request, run: str) -> Response:
        """Ends a run: it becomes datasets of the edition, and is scored. Topics without a submission are `empty`."""
        return answer(await desk.finish(desk.require_run(bearer(request), run)))


def _topic_endpoint(desk: DeskService, call: TopicCall) -> Endpoint:
    async def endpoint(request: Request, body: BaseModel) -> Response:
        return answer(await desk.call(bearer(request), call.name, body))

    endpoint.__annotations__["body"] = call.body
    endpoint.__name__ = call.tool
    return endpoint


def _add_submit(app: FastAPI, desk: DeskService) -> None:
    @app.post(
        "/v1/submit",
        response_model=service.SubmitAnswer,
        tags=["topics"],
        description=SUBMIT,
        openapi_extra=_secured("topic token"),
    )
    async def submit(request: Request, body: Submission) -> Response:
        return answer(await desk.submit(bearer(request), body))
