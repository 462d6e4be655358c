"""The tasks for inspect_ai: `arena/discovery`, `arena/selection`, `arena/organization`, `arena/paperqa`.

Each sample leases a topic of a served desk, has the desk's tools over MCP, and is scored as the desk scores it. Any
solver or agent of inspect_ai can take the place of the loop that is used when none is chosen. Tokens stay in this
process: no log of inspect_ai holds them.
"""

import os
from asyncio import to_thread
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

from inspect_ai import Task as InspectTask
from inspect_ai import task
from inspect_ai._util.registry import registry_add, registry_info  # the only way to a name with our prefix
from inspect_ai.dataset import MemoryDataset
from inspect_ai.dataset import Sample as InspectSample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolSource, mcp_connection, mcp_server_http, mcp_tools

from schemas.submission import Kind, Sample, System, Task
from tasks.http.desk import DeskClient, DeskError

URL, KEY = "ARENA_DESK_URL", "ARENA_SERVE_KEY"
"""Variables of the environment: where the desk is served, and its key."""

DEFAULT_URL = "http://127.0.0.1:8642"

_run_tokens: dict[str, str] = {}
_topic_token: ContextVar[str] = ContextVar("topic_token")


class _DeskTools(ToolSource):
    """The tools of the sample's topic, over MCP."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def tools(self) -> list[Tool]:
        return await _connect(self._url).tools()


def _connect(url: str) -> ToolSource:
    """Returns the tools of the sample's topic at a desk, by its token at this moment."""
    return mcp_tools(mcp_server_http(name="desk", url=f"{url}/mcp", authorization=_topic_token.get()))


def desk_tools(url: str | None = None) -> ToolSource:
    """Returns the desk's tools for an agent: `react(tools=[desk_tools()])`.

    Args:
        url: The served desk; None: that of ARENA_DESK_URL.
    """
    return _DeskTools(_find_url(url))


@solver
def lease_topic(run: str, url: str) -> Solver:
    """Leases a topic, and puts its title and instructions before the model."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with _client(url) as desk:
            leased = await to_thread(desk.lease, run, _run_tokens[run])
        if not leased:
            raise RuntimeError(f"run {run}: no topic is left to lease; start the task again under another version")
        (topic,) = leased
        _topic_token.set(topic["topic_token"])
        state.messages = [ChatMessageUser(content=f"{topic['instructions']}\n\n{topic['title']}")]
        state.metadata |= {"topic": topic["topic"], "title": topic["title"]}
        return state

    return solve


@solver
def desk_loop(url: str | None = None) -> Solver:
    """Lets the model call the desk's tools until it calls none; used when no solver is chosen."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        source = _connect(_find_url(url))
        async with mcp_connection([source]):
            state.tools = await source.tools()
            return await generate(state, tool_calls="loop")

    return solve


@metric
def arena_means() -> Metric:
    """Ends the run, and returns the means that the desk computed: our measures, over the run's public topics."""

    def compute(scores: list[SampleScore]) -> dict[str, Any]:
        told = next((score.score.metadata for score in scores if score.score.metadata), None)
        if told is None or told["run"] not in _run_tokens:
            return {"submitted": sum(score.score.as_float() for score in scores) / max(1, len(scores))}
        with _client(told["url"]) as desk:
            try:
                found = desk.finish(told["run"], _run_tokens[told["run"]])
            except DeskError as error:
                if error.status != 409:
                    raise
                found = desk.status(told["run"], _run_tokens[told["run"]])  # metrics are computed more than once
        return read_means(found.get("scores"))

    return cast(Metric, compute)


def read_means(scores: Any) -> dict[str, float]:
    """Returns the numbers of a run's scores as the desk gives them, of graded labels; none where none are public."""
    found = cast("dict[str, dict[str, Any]]", scores or {})
    values = next((found[labels] for labels in ("graded", "trees", "answers") if labels in found), {})
    return {name: float(value) for name, value in values.items() if value is not None}


@scorer(metrics=[arena_means()], name="arena")
def desk_scorer(run: str, url: str) -> Scorer:
    """Scores a run by the desk; a sample's own value is 1 where something was handed in."""

    async def score(state: TaskState, target: Target) -> Score:
        turns = [message for message in state.messages if isinstance(message, ChatMessageAssistant)]
        handed_in = any(call.function == "submit" for turn in turns for call in turn.tool_calls or ())
        return Score(value=float(handed_in), metadata={"run": run, "url": url})

    return score


def _client(url: str) -> DeskClient:
    return DeskClient(url, os.environ.get(KEY))


def _find_url(url: str | None) -> str:
    return (url or os.environ.get(URL) or DEFAULT_URL).rstrip("/")


def open_task(
    name: Task,
    edition: str,
    system: str,
    version: str = "1",
    kind: Kind = "own_tools",
    topics: int | None = None,
    seed: int = 42,
    url: str | None = None,
) -> InspectTask:
    """Opens a run of a system at a served desk; every sample answers one of its topics.

    Args:
        name: The task.
        edition: Name of the edition.
        system: Name of the system, with `version` the name of its run in the edition.
        version: A changed system is another run.
        kind: What the system may use.
        topics: Size of a random sample of the topics; None: all.
        seed: Seed of the sample.
        url: The served desk; None: that of ARENA_DESK_URL.
    """
    address = _find_url(url)
    described = System(name=system, version=str(version), kind=kind)
    with _client(address) as desk:
        opened = desk.open_run(edition, name, described, Sample(topics=topics, seed=seed) if topics else None)
    run = opened["run"]
    _run_tokens[run] = opened["run_token"]
    samples = [InspectSample(id=number, input=f"topic {number}") for number in range(1, opened["topics"] + 1)]
    return InspectTask(
        dataset=MemoryDataset(samples, name=f"{edition}/{name}"),
        setup=lease_topic(run, address),
        solver=desk_loop(address),
        scorer=desk_scorer(run, address),
        name=f"arena/{name}",
        metadata={"edition": edition, "run": run},
    )


@task
def discovery(edition: str, system: str, **options: Any) -> InspectTask:
    """Asks for the papers that a survey cites, given its title; takes the options of `open_task`."""
    return open_task("discovery", edition, system, **options)


@task
def selection(edition: str, system: str, **options: Any) -> InspectTask:
    """Asks for the papers that a survey cites, the most important first; takes the options of `open_task`."""
    return open_task("selection", edition, system, **options)


@task
def organization(edition: str, system: str, **options: Any) -> InspectTask:
    """Asks for the mind-map of a survey, given its title; takes the options of `open_task`."""
    return open_task("organization", edition, system, **options)


@task
def paperqa(edition: str, system: str, **options: Any) -> InspectTask:
    """Asks questions over papers; takes the options of `open_task`."""
    return open_task("paperqa", edition, system, **options)


def _register(found: Callable[..., InspectTask], name: str) -> None:
    """Makes a task known as `arena/<name>`, however this project is installed."""
    registry_add(found, registry_info(found).model_copy(update={"name": f"arena/{name}"}))


for _found in (discovery, selection, organization, paperqa):
    _register(_found, _found.__name__)
