"""Questions over the served desk: the topic calls of AirQA, within the papers that the question names."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from flows.service.app import make_app
from flows.service.serve import Address, listen, make_desk, make_server
from schemas.tables.paperqa_questions import PAPERQA_ANNOTATIONS, PAPERQA_QUESTIONS
from tasks.service.editions import Means
from tasks.service.service import ServiceSettings
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.paperqa.conftest import BIRD, DEEP, GRAPH, ONE_CORE, Shelf, ask
from tests.published import publish


@pytest.fixture
def url(shelf: Shelf, tmp_path: Path) -> Iterator[str]:
    from queue import Queue
    from threading import Thread

    root = tmp_path / "store"
    shutil.copytree(shelf.store.root, root)
    store = Store(root)
    questions = [ask("Which song?", (BIRD,)).model_dump(), ask("Anything?", (GRAPH, DEEP)).model_dump()]
    tables = {"part": (PAPERQA_QUESTIONS, questions), "annotations": (PAPERQA_ANNOTATIONS, [])}
    slots = {f"airqa/{name}": ref for name, ref in shelf.inputs.items()}
    asked = publish(store, "paperqa_questions", tables)
    Editions(store).record("airqa", "airqa", {**slots, "airqa/questions": asked})
    means = Means(ONE_CORE, tuple((shelf.root / "pdfs").glob("*.pdf")))
    urls: Queue[str] = Queue()
    server = make_server(make_app(make_desk(store, means, ServiceSettings())), urls.put)
    with listen(Address()) as sock:
        thread = Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        yield urls.get(timeout=60)
        server.should_exit = True
        thread.join(60)


def test_the_calls_of_a_question_see_its_papers_alone(url: str) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        (edition,) = client.get("/v1/editions").json()["editions"]
        assert edition["tasks"]["paperqa"] == {"topics": 2} and edition["tasks"]["discovery"] == {"topics": 0}
        system = {"name": "reader", "version": "1", "kind": "desk_only"}
        run = client.post("/v1/runs", json={"edition": "airqa", "task": "paperqa", "system": system}).json()
        whole = {"Authorization": f"Bearer {run['run_token']}"}
        topics = client.post("/v1/runs/reader@1/topics", json={"n": 2}, headers=whole).json()["topics"]
        topic = next(topic for topic in topics if topic["title"] == "Which song?")
        assert "one word" in topic["instructions"] and BIRD in topic["instructions"]
        client.headers["Authorization"] = f"Bearer {topic['topic_token']}"

        found = client.post("/v1/sql", json={"query": "SELECT title FROM papers"}).json()
        assert "Bird song survey" in found["result"] and "Graph networks" not in found["result"]
        assert found["quotas_left"]["searches"] == 999
        passages = client.post("/v1/passages", json={"query": "song of birds", "k": 50}).json()["passages"]
        assert {passage["paper"] for passage in passages} == {BIRD}
        assert passages[0].keys() == {"paper", "title", "kind", "section", "page", "text"}
        page = client.post("/v1/page", json={"paper": BIRD, "page": 1}).json()
        kind, _, data = page["image"].partition(";base64,")
        assert (kind, base64.b64decode(data)[:4]) == ("data:image/png", b"\x89PNG")
        assert client.post("/v1/calculate", json={"expression": "2 ** 10 / 4"}).json()["result"] == 256
        assert client.post("/v1/page", json={"paper": BIRD, "page": 7}).json()["field"] == "page"
        assert client.post("/v1/calculate", json={"expression": "import os"}).json()["field"] == "expression"
        refused = {client.post("/v1/page", json={"paper": i, "page": 1}).content for i in (GRAPH, DEEP, "x", BIRD[:-1])}
        assert len(refused) == 1 and b"404" in refused.pop()
        assert client.post("/v1/search", json={"query": "x"}).status_code == 404
        assert client.post("/v1/submit", json={"ranking": [1]}).json()["field"] == "ranking"
        submitted = client.post("/v1/submit", json={"answer": {"song": ["a", 1]}}).json()
        assert submitted["accepted"] == 1
        assert client.post("/v1/sql", json={"query": "SELECT 1"}).status_code == 409
