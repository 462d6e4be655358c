"""The same system, which searches once for a topic's title in lower case, through every door of an edition."""

import asyncio
import json
from pathlib import Path
from typing import Any

import polars as pl
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from flows.pipeline.submissions import enter_run
from flows.service.serve import open_quietly
from schemas.settings import Resources, RunSettings
from schemas.submission import Entry, Handed, System
from tasks.http.desk import DeskClient
from tasks.store.editions import Editions
from tasks.store.store import Store
from tasks.submissions.files import read_submissions
from tests.service.conftest import EDITION, Served

K = 100
PLUG_IN = "title.bm25.abstract"


def by_plug_in(root: Path) -> str:
    """Runs the project's own baseline `title`."""
    pipeline = open_quietly(Store(root), EDITION, Resources(workers=1))
    pipeline.run_systems(RunSettings(baselines=("title",), retrievers=("bm25",)))
    return PLUG_IN


def by_rest(served: Served) -> str:
    """Leases every topic over REST, searches and hands in."""
    with DeskClient(served.url) as desk:
        run = desk.open_run(EDITION, "discovery", System(name="title-rest", version="1", kind="desk_only"))
        for topic in desk.lease(run["run"], run["run_token"], 100):
            found = desk.call("search", topic["topic_token"], {"query": topic["title"].lower().strip(), "k": K})
            ranking = [hit["corpus_id"] for hit in found["hits"]]
            assert desk.call("submit", topic["topic_token"], {"ranking": ranking})["outside"] == 0
        assert desk.finish(run["run"], run["run_token"])["outcomes"] == {"scored": run["topics"]}
        return run["run"]


def by_mcp(served: Served) -> str:
    """Leases over REST; searches and hands in with the official MCP client."""
    with DeskClient(served.url) as desk:
        run = desk.open_run(EDITION, "discovery", System(name="title-mcp", version="1", kind="desk_only"))
        topics = desk.lease(run["run"], run["run_token"], 100)
        asyncio.run(_answer_by_mcp(served.url, topics))
        desk.finish(run["run"], run["run_token"])
        return run["run"]


async def _answer_by_mcp(url: str, topics: list[dict[str, Any]]) -> None:
    import httpx2

    for topic in topics:
        headers = {"Authorization": f"Bearer {topic['topic_token']}"}
        async with (
            httpx2.AsyncClient(headers=headers) as client,
            streamable_http_client(f"{url}/mcp", http_client=client) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            query = topic["title"].lower().strip()
            found: Any = await session.call_tool("search", {"query": query, "k": K})
            ranking = [hit["corpus_id"] for hit in found.structured_content["hits"]]
            await session.call_tool("submit", {"ranking": ranking})


def by_file(root: Path, folder: Path) -> str:
    """Hands in the plug-in's rankings as a TREC file, with other scores in the same order."""
    path = folder / "title.txt"
    rows = pl.read_parquet(_files(root, PLUG_IN)).iter_rows(named=True)
    path.write_text("".join(f"{r['topic_id']} Q0 {r['corpus_id']} {r['rank']} {999 - r['rank']} t\n" for r in rows))
    topics = {topic: Handed(submission) for topic, submission in read_submissions(path).topics.items()}
    entry = Entry(System(name="title-file", version="1"), "discovery", topics)
    enter_run(open_quietly(Store(root), EDITION, Resources(workers=1)), entry)
    return entry.system.run


def by_inspect(served: Served, folder: Path) -> tuple[str, Any]:
    """Runs the inspect_ai task `arena/discovery` with a model that calls the tools as the system does."""
    from inspect_ai import eval as run_task
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from flows.inspect_tasks import discovery

    def act(messages: list[Any], *_: Any) -> ModelOutput:
        output = choose(messages[-1])
        output.usage = ModelUsage()  # or tokens are counted with a table from the network
        return output

    def choose(last: Any) -> ModelOutput:
        if last.role == "user":
            title = last.text.rpartition("\n\n")[2]
            return ModelOutput.for_tool_call("mockllm/model", "search", {"query": title.lower().strip(), "k": K})
        if last.function == "search":
            ranking = [hit["corpus_id"] for hit in json.loads(last.text)["hits"]]
            return ModelOutput.for_tool_call("mockllm/model", "submit", {"ranking": ranking})
        return ModelOutput.from_content("mockllm/model", "handed in")

    model = get_model("mockllm/model", custom_outputs=act)
    asked = discovery(EDITION, "title-inspect", url=served.url, kind="desk_only")
    (log,) = run_task(asked, model=model, log_dir=str(folder / "logs"), display="none")
    assert log.status == "success", log.error
    return "title-inspect@1", log


def rows(root: Path, tag: str) -> list[tuple[int, int, int]]:
    """Returns topic, document and rank of a run."""
    return pl.read_parquet(_files(root, tag)).select("topic_id", "corpus_id", "rank").rows()


def scores(root: Path, tag: str) -> list[Any]:
    """Returns the scores of a run."""
    store = Store(root)
    dataset = store.open(Editions(store).load(EDITION).slots[f"scores/{tag}"])
    return pl.read_parquet(dataset.files()).drop("tag").rows()


def _files(root: Path, tag: str) -> list[Path]:
    store = Store(root)
    return store.open(Editions(store).load(EDITION).slots[f"run/{tag}"]).files()
