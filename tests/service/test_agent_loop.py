"""An agent that writes OpenAI's tool calls, on 20 topics to `submit`: asked through the desk, and recorded."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from tasks.service.record import export_calls, open_record
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, as_json
from tests.service.conftest import EDITION, publish_edition, running

TOPICS = {topic: f"word{topic} and birds" for topic in range(1, 21)}
DOCUMENTS = {1000 + topic: (f"Paper on word{topic}", f"word{topic} word{topic} fly") for topic in TOPICS}


def think(seen: Seen, _: int) -> Answer:
    """Plays a model that searches for the topic's first word, and hands in what it was told, without the last paper."""
    last = seen.json["messages"][-1]
    assert {tool["function"]["name"] for tool in seen.json["tools"]} >= {"search", "submit"}
    if last["role"] == "user":
        return tool_call("search", query=last["content"].rpartition("\n")[2].split()[0], k=5)
    found = json.loads(last["content"])
    if "hits" in found:
        return tool_call("submit", ranking=[hit["corpus_id"] for hit in found["hits"]])
    return as_json(reply({"role": "assistant", "content": "Done."}, "stop"))


def tool_call(name: str, **arguments: Any) -> Answer:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return as_json(reply({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"))


def reply(message: dict[str, Any], ended: str) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": ended}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def post(client: httpx.Client, path: str, token: str, body: dict[str, Any]) -> Any:
    answer = client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.is_success, answer.text
    return answer.json()


def run_agent(client: httpx.Client, topic: dict[str, Any]) -> None:
    """The loop of an agent: asks the model, makes the calls that it wrote, until it writes none."""
    token, tools = topic["topic_token"], client.get("/v1/tools.json").json()
    paths = {"search": "/v1/search", "submit": "/v1/submit"}
    messages: list[Any] = [{"role": "user", "content": f"{topic['instructions']}\n{topic['title']}"}]
    for _ in range(5):
        asked = {"model": "default", "messages": messages, "tools": tools}
        token_of_model = topic["run_token"]  # that of the topic ends with `submit`
        message = post(client, "/v1/llm/chat/completions", token_of_model, asked)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            told = call["function"]
            answer = post(client, paths[told["name"]], token, json.loads(told["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer)})


def test_an_agent_answers_twenty_topics_and_its_trajectory_is_exported(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(think)
    for name, value in {"BASE_URL": server.url, "MODEL": "m", "PROVIDER": "scripted", "API_KEY": "k"}.items():
        monkeypatch.setenv(f"ARENA_LLM_{name}", value)
    (tmp_path / "llm.json").write_text(json.dumps({"prices": {"m": {"input": 1, "output": 1}}}))
    monkeypatch.setenv("ARENA_LLM_SETTINGS", str(tmp_path / "llm.json"))
    root = tmp_path / "store"
    publish_edition(Store(root), TOPICS, DOCUMENTS)
    with running(root) as served, served.client() as client:
        run = served.open_run("agent")
        for topic in served.lease(run, 100):
            run_agent(client, {**topic, "run_token": run["run_token"]})
        ended = post(client, f"/v1/runs/{run['run']}/finish", run["run_token"], {})
    assert ended["outcomes"] == {"scored": 20}
    store = Store(root)
    dataset = store.open(Editions(store).load(EDITION).slots[f"run/{run['run']}"])
    found = pl.read_parquet(dataset.files()).select("topic_id", "corpus_id").rows()
    assert found == [(topic, 1000 + topic) for topic in TOPICS]
    with closing(open_record(root)) as record:
        rows = [json.loads(line) for line in export_calls(record, EDITION, run["run"])]
    calls = {str(topic): [row["call"] for row in rows if row["topic"] == str(topic)] for topic in TOPICS}
    assert all(made[-2:] == ["search", "submit"] for made in calls.values()), calls
    assert len(server.seen) == 60
