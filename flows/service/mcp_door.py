"""The MCP door: the calls of a topic as tools, over streamable HTTP without sessions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import Request
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import ValidationError

from flows.service.guards import MOST_BYTES, Receive, Scope, Send, bearer, problem
from flows.service.tools import Tool, tools_of
from schemas.submission import Submission
from tasks.service.ledger import Leased
from tasks.service.problems import Refused
from tasks.service.service import DeskService

HOSTS = ["127.0.0.1", "localhost", "[::1]"]


class McpDoor:
    """An ASGI app that answers MCP requests; the bearer of each is the token of a topic.

    Args:
        desk: What answers.
        local: Whether only requests to this machine's own names are taken.
    """

    def __init__(self, desk: DeskService, *, local: bool = True) -> None:
        self._desk = desk
        server = Server(
            "research-arena",
            version=version("research-arena"),
            instructions="Search, read, follow citations, and hand in with submit. The topic is that of your token.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=local,
                allowed_hosts=[name for host in HOSTS for name in (host, f"{host}:*")],
                allowed_origins=[f"http://{host}:*" for host in HOSTS],
            ),
            max_request_body_size=MOST_BYTES,
        )

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Keeps the door open."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; one without a topic's token is refused before MCP reads it."""
        try:
            self._desk.find_topic(bearer(Request(scope)))
        except Refused as refused:
            await problem(refused)(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)

    async def _list(
        self, context: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(tool) for tool in self._tools(context)])

    def _tools(self, context: ServerRequestContext[Any, Any]) -> list[Tool]:
        leased: Leased = self._desk.ledger.find_topic(_token(context))
        return tools_of(leased.run.opened.task)

    async def _call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            return _result(await self._answer(context, params))
        except Refused as refused:
            return _result(refused.body, failed=True)

    async def _answer(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> dict[str, Any]:
        tool = next((found for found in self._tools(context) if found.name == params.name), None)
        if tool is None:
            raise Refused(404, "There is no such tool for this topic.")
        try:
            body = tool.body.model_validate(params.arguments or {})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            named = ".".join(map(str, first["loc"])) or "arguments"
            raise Refused(422, f"{named}: {first['msg']}", field=named) from error
        if isinstance(body, Submission):
            return await self._desk.submit(_token(context), body)
        return await self._desk.call(_token(context), tool.call, body)


def _token(context: ServerRequestContext[Any, Any]) -> str:
    assert isinstance(context.request, Request)
    return bearer(context.request)


def _definition(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.body.model_json_schema(),
        output_schema=tool.answer.model_json_schema(),
    )


def _result(value: dict[str, Any], *, failed: bool = False) -> types.CallToolResult:
    content: list[types.ContentBlock] = []
    image = value.get("image")
    if isinstance(image, str) and image.startswith("data:"):
        kind, _, data = image.removeprefix("data:").partition(";base64,")
        content.append(types.ImageContent(type="image", data=data, mime_type=kind))
        value_told = {name: shown for name, shown in value.items() if name != "image"}
    else:
        value_told = value
    content.append(types.TextContent(type="text", text=orjson.dumps(value_told).decode()))
    return types.CallToolResult(content=content, structured_content=value, is_error=failed)
