"""The MCP door, through the official client: the same answers as REST, and the same refusals."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.service.conftest import HIDDEN, Served
from tests.service.test_contract import call

T = TypeVar("T")


def with_client(served: Served, token: str, use: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(f"{served.url}/mcp", http_client=http)) as client,
        ):
            return await use(client)

    return asyncio.run(run())


def test_tools_answer_as_rest_does(served: Served) -> None:
    (topic,) = served.lease(served.open_run("mcp"))
    token = topic["topic_token"]

    async def use(client: Client) -> dict[str, Any]:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"search", "get_documents", "references", "citations", "submit"}
        assert all(tool.output_schema and tool.input_schema["type"] == "object" for tool in tools)
        found: dict[str, Any] = {}
        found["search"] = await client.call_tool("search", {"query": topic["title"], "k": 7})
        ids = [hit["corpus_id"] for hit in found["search"].structured_content["hits"]]
        found["documents"] = await client.call_tool("get_documents", {"ids": ids})
        found["references"] = await client.call_tool("references", {"id": ids[0]})
        found["citations"] = await client.call_tool("citations", {"id": ids[0], "k": 2})
        return {name: result.structured_content for name, result in found.items() if not result.is_error}

    over_mcp = with_client(served, token, use)
    ids = [hit["corpus_id"] for hit in over_mcp["search"]["hits"]]
    bodies: dict[str, dict[str, Any]] = {
        "search": {"query": topic["title"], "k": 7},
        "documents": {"ids": ids},
        "references": {"id": ids[0]},
        "citations": {"id": ids[0], "k": 2},
    }
    for name, body in bodies.items():
        over_rest = call(served, token, name, **body).json()
        assert {**over_mcp[name], "quotas_left": None} == {**over_rest, "quotas_left": None}
        assert over_rest["quotas_left"]["searches"] == over_mcp[name]["quotas_left"]["searches"] - 3

    async def submit(client: Client) -> tuple[Any, Any]:
        first = await client.call_tool("submit", {"ranking": ids})
        return first.structured_content, await client.call_tool("submit", {"ranking": ids})

    accepted, again = with_client(served, token, submit)
    assert accepted == {"accepted": 7, "violations": {"unavailable": 0, "duplicate": 0}, "outside": 0}
    assert again.is_error and again.structured_content["status"] == 409


def test_refusals_say_what_rest_says(served: Served) -> None:
    (topic,) = served.lease(served.open_run("mcp-refusals"))
    token = topic["topic_token"]
    asks: list[tuple[str, str, dict[str, Any]]] = [
        ("search", "search", {"query": "x", "k": 0}),
        ("search", "search", {"query": "x", "horizon": "2030-01-01"}),
        ("search", "search", {"query": "x", "engine": "dense"}),
        ("get_documents", "documents", {"ids": [100, next(iter(HIDDEN))]}),
        ("references", "references", {"id": 424_242}),
        ("submit", "submit", {"tree": {"label": "x", "children": []}}),
    ]

    async def use(client: Client) -> list[Any]:
        return [await client.call_tool(tool, body) for tool, _, body in asks]

    for result, (_, path, body) in zip(with_client(served, token, use), asks, strict=True):
        assert result.is_error
        assert result.structured_content == call(served, token, path, **body).json()


@pytest.mark.parametrize("token", ["forged", "x" * 3000])
def test_a_token_is_needed_before_anything_is_read(served: Served, token: str) -> None:
    with served.client(token) as client:
        reply = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert (reply.status_code, reply.json()["status"]) == (401, 401)


def test_nothing_hidden_comes_out_of_a_poisoned_corpus(served: Served) -> None:
    (topic,) = served.lease(served.open_run("mcp-poison"))

    async def use(client: Client) -> str:
        results = [await client.call_tool("search", {"query": topic["title"] + " hidden900 secret910", "k": 1000})]
        for hit in results[0].structured_content["hits"][:5]:
            results.append(await client.call_tool("get_documents", {"ids": [hit["corpus_id"]]}))
            results.append(await client.call_tool("references", {"id": hit["corpus_id"], "k": 1000}))
            results.append(await client.call_tool("citations", {"id": hit["corpus_id"], "k": 1000}))
        return "".join(result.model_dump_json() for result in results)

    text = with_client(served, topic["topic_token"], use)
    assert "Open" in text
    assert not [
        i for i in HIDDEN if f"hidden{i}" in text or f'"corpus_id":{i},' in text or f'"corpus_id":{i}}}' in text
    ]
