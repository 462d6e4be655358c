"""The calls of a topic as tools of models: names, descriptions and forms, for OpenAI's function calls and for MCP."""

from typing import Any, NamedTuple

from pydantic import BaseModel

from schemas import service
from schemas.submission import Submission, Task
from tasks.service.calls import CALLS, calls_of

SUBMIT = "Hands in what was found for this topic, once; the topic's calls end with it."


class Tool(NamedTuple):
    """A tool: its name, what it does, and the forms of its arguments and its answer."""

    name: str
    description: str
    body: type[BaseModel]
    answer: type[BaseModel]
    call: str


def tools_of(task: Task) -> list[Tool]:
    """Returns the tools of a task's topics."""
    found = [Tool(c.tool, _describe(c.body), c.body, c.answer, c.name) for c in calls_of(task)]
    return [*found, Tool("submit", SUBMIT, Submission, service.SubmitAnswer, "submit")]


def openai_tools() -> list[dict[str, Any]]:
    """Returns every tool as a function definition of OpenAI's chat completions."""
    tools = {tool.name: tool for task in ("discovery", "paperqa") for tool in tools_of(task)}
    assert len(tools) == len(CALLS) + 1
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.body.model_json_schema(),
            },
        }
        for tool in tools.values()
    ]


def _describe(body: type[BaseModel]) -> str:
    return " ".join((body.__doc__ or "").split())
