"""Every cell of the conformance table: a dialect, scripted from its vendor's pages, asked through the door."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from schemas.errors import BadInput
from schemas.llm import Image, Message, Reply, Request, Tool
from schemas.llm_settings import LlmSettings
from tasks.llm.check import read_context
from tasks.llm.door import Door
from tasks.llm.exchange import SendResult
from tasks.llm.profiles import Profiles
from tasks.llm.provider import OpenAiProvider
from tests.conftest import REPOSITORY
from tests.llm.conftest import SECRET, question
from tests.llm.dialects import COLUMNS, DIALECTS, Dialect, conformance_table
from tests.llm.scripted_server import ScriptedServer, as_json

LOOK = Tool(name="look", description="Looks.", parameters={"type": "object", "properties": {"at": {"type": "string"}}})
PICTURE = Image(media_type="image/png", data=b"\x89PNG\r\n\x1a\nrest")


class Rated(BaseModel):
    """A form with the bounds that vendors' schemas differ in."""

    model_config = ConfigDict(extra="forbid", strict=True)
    score: int = Field(ge=0, le=5)
    why: str = Field(min_length=1)


class Endpoint:
    """A dialect that is served, and the door to it."""

    def __init__(self, server: ScriptedServer, dialect: Dialect) -> None:
        self.server, self.dialect = server, dialect
        server.play(dialect.play)
        self.settings = LlmSettings.model_validate(
            {
                "base_url": server.url.removesuffix("/v1") + dialect.path,
                "provider": dialect.provider,
                "model": dialect.model,
                "prices": {dialect.model: {"input": 1, "output": 1}},
                "retry": {"tries": 3, "base_s": 0.001, "cap_s": 0.01, "timeout_s": 5},
            }
        )

    def ask(self, request: Request[Any]) -> Reply[Any]:
        async def once() -> Reply[Any]:
            async with Door(self.settings, SECRET) as door:
                return await door.ask(request)

        return asyncio.run(once())

    def send(self) -> tuple[SendResult, bytes]:
        """One attempt, and the list of models."""

        async def once() -> tuple[SendResult, bytes]:
            provider = OpenAiProvider(self.settings, SECRET)
            profile = Profiles(self.settings).of(self.settings.model)
            try:
                return await provider.send(b'{"model": "m"}', profile), await provider.models(profile)
            finally:
                await provider.close()

        return asyncio.run(once())


def chat(at: Endpoint) -> None:
    reply = at.ask(question())
    assert (reply.outcome, reply.text, reply.model) == ("ok", "fine", f"{at.dialect.model}-2026")
    assert len(at.server.seen) == 1


def json_schema(at: Endpoint) -> None:
    reply = at.ask(Request(messages=(Message(role="user", content="How well?"),), stage="test", answer=Rated))
    assert (reply.outcome, reply.answer) == ("ok", Rated(score=3, why="it fits"))
    assert at.server.seen[0].json["response_format"]["type"] == at.dialect.forms


def tools(at: Endpoint) -> None:
    asked = question(tools=(LOOK,))
    reply = at.ask(asked)
    ((name, arguments, call_id),) = [(call.name, call.arguments, call.id) for call in reply.tool_calls]
    assert (reply.outcome, name, arguments.replace(" ", "")) == ("ok", "look", '{"at":"x"}')
    turns = (
        Message(role="assistant", content="", tool_calls=reply.tool_calls),
        Message(role="tool", content="a wall", tool_call_id=call_id),
    )
    assert call_id and at.ask(asked.model_copy(update={"messages": asked.messages + turns})).outcome == "ok"
    assert at.server.seen[1].json["messages"][-1]["tool_call_id"] == call_id


def images(at: Endpoint) -> None:
    shown = Request(messages=(Message(role="user", content=("What is it?", PICTURE)),), stage="test")
    if not at.dialect.images:
        with pytest.raises(BadInput, match="sends pictures"):
            at.ask(shown)
        assert at.server.seen == []
        return
    assert at.ask(shown).outcome == "ok"
    pieces = at.server.seen[0].json["messages"][0]["content"]
    assert [piece["type"] for piece in pieces] == ["text", "image_url"]
    assert pieces[1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw")


def reasoning(at: Endpoint) -> None:
    at.server.play(lambda seen, number: at.dialect.refuses(seen) or at.dialect.reply(at.dialect.reasoned))
    reply = at.ask(question())
    assert (reply.outcome, reply.text) == ("ok", "fine")


def usage(at: Endpoint) -> None:
    reply = at.ask(question())
    assert (tuple(reply.usage.tokens), reply.usage.estimated) == (at.dialect.usage[1], False)


def errors(at: Endpoint) -> None:
    answer, expected = at.dialect.failed
    at.server.play(lambda seen, number: answer if not number else at.dialect.play(seen, number))
    if expected == "again":
        assert (at.ask(question()).outcome, len(at.server.seen)) == ("ok", 2)
    elif expected in ("failed", "refused", "cut", "too_long"):
        reply = at.ask(question())
        assert (reply.outcome, len(at.server.seen)) == (expected, 1)
        assert reply.reason
    else:
        with pytest.raises(BadInput, match=expected):
            at.ask(question())


def limits(at: Endpoint) -> None:
    answer, wait_s = at.dialect.limited
    listed = as_json({"data": [{"id": at.dialect.model, **at.dialect.context}]})
    at.server.play(lambda seen, number: listed if seen.method == "GET" else answer)
    sent, models = at.send()
    assert (sent.retry, sent.retry_after_s, sent.error) == (True, wait_s, None)
    assert sent.limited == (answer.status != 503)
    assert read_context(models, at.dialect.model) == (4096 if at.dialect.context else None)


CELLS: dict[str, Callable[[Endpoint], None]] = {
    "chat": chat,
    "JSON schema": json_schema,
    "tools": tools,
    "images": images,
    "reasoning": reasoning,
    "usage": usage,
    "errors": errors,
    "limits": limits,
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.title)
def test_a_dialect_is_understood(server: ScriptedServer, dialect: Dialect, column: str):
    CELLS[column](Endpoint(server, dialect))


def test_the_page_on_endpoints_has_the_table_of_the_tests_and_cites_every_vendor():
    page = (REPOSITORY / "docs" / "reference" / "endpoints.md").read_text()
    assert conformance_table() in page, f"the table in docs/reference/endpoints.md must be:\n{conformance_table()}"
    cited = [line for line in page.splitlines() if line.startswith("- **")]
    assert [line.split("**")[1] for line in cited] == [dialect.title for dialect in DIALECTS]
    assert all("](https://" in line for line in cited)
