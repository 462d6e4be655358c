"""A small poisoned edition, and servers of it on this machine."""

import shutil
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple

import httpx
import pytest

from flows.service.app import make_app
from flows.service.model_proxy import ModelProxy
from flows.service.serve import Address, listen, make_desk, make_server
from schemas.manifest import Ref
from schemas.service import Quotas
from schemas.settings import Resources
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.papers import PAPERS
from tasks.corpus.edges import EdgeSettings, edges
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.service.editions import Means
from tasks.service.service import DeskService, ServiceSettings
from tasks.store.editions import Editions
from tasks.store.store import Request, Store
from tests.published import publish, publish_documents, publish_surveys, publish_topics, topic_row

TLS = ssl.create_default_context()
"""Made once: nothing here speaks TLS, and every client would make one."""

EDITION = "poisoned"
TITLES = {1: "Migration of birds", 2: "Schools of fish", 3: "Singing of birds"}
"""Title by topic; all have the horizon 2020-01-01, and each lies in the corpus as a survey."""

SURVEYS = {*TITLES, 900, 901}
LATE = {910, 911, 912}
HIDDEN = SURVEYS | LATE
"""Documents that no topic may see; they match every title best, and cite and are cited by everything."""

OPEN = range(100, 160)
ONE = Resources(workers=1)


def texts() -> dict[int, tuple[str, str | None]]:
    words = ("migration", "birds", "schools", "fish", "singing", "north", "water", "wings", "song", "night")
    every = "Migration schools singing of birds fish"
    found: dict[int, tuple[str, str | None]] = {}
    for i in HIDDEN:
        found[i] = (f"{every} hidden{i}", f"{every} {every} secret{i}")
    for i in OPEN:
        found[i] = (f"Open {words[i % 10]} {i}", f"About {words[i % 7]} and {words[(i // 3) % 10]} {words[i % 3]}")
    return found


def links() -> set[tuple[int, int]]:
    """Who cites whom: everything around the hidden papers, and a rule among the others."""
    ids = sorted(texts())
    around = {(a, b) for a in ids for b in HIDDEN if a != b} | {(b, a) for a in ids for b in HIDDEN if a != b}
    return around | {(i, i - step) for i in OPEN for step in (1, 3, 7) if i - step in OPEN}


def publish_edition(
    store: Store, titles: Mapping[int, str] = TITLES, others: Mapping[int, tuple[str, str | None]] | None = None
) -> None:
    """Publishes the poisoned edition, with all that the desk reads; or one of other topics and documents."""
    found = texts() if others is None else others
    documents = publish_documents(store, found, late=LATE)
    papers = [
        {
            **dict.fromkeys(PAPERS.arrow.names),
            "corpus_id": i,
            "title": title,
            "abstract": abstract,
            "has_full_text": True,
            "date": date(2020 if i in LATE else 2019, 1, 1),
            "date_precision": "day",
            "venue": f"Venue {i}",
            "authors": [f"Author {i}", "Ä. Öz"],
            "fields_of_study": [],
            "publication_types": [],
        }
        for i, (title, abstract) in sorted(found.items())
    ]
    citations = [
        {"citing_corpus_id": a, "cited_corpus_id": b, "is_influential": False, "citation_id": place}
        for place, (a, b) in enumerate(sorted(links()))
    ]
    refs: dict[str, Ref] = {
        "documents": documents,
        "papers": publish(store, "papers", {"part": (PAPERS, papers)}),
        "surveys": publish_surveys(store, {*SURVEYS, *titles}),
        "topics": publish_topics(
            store,
            [topic_row(topic, title) for topic, title in titles.items()],
            {topic: {100 + topic: 1} for topic in titles},
        ),
        "citation_records": publish(store, "citation_records", {"part": (CITATION_RECORDS, citations)}),
    }
    index = store.build(Request(bm25, Bm25Settings(field="abstract"), {"documents": documents}), ONE)
    inputs = {name: refs[name] for name in edges.inputs}
    refs["edges"] = store.build(Request(edges, EdgeSettings(), inputs), ONE).ref
    Editions(store).record(EDITION, "2026-01-06", refs | {"bm25/abstract": index.ref})


@pytest.fixture(scope="session")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the poisoned edition; do not change it."""
    root = tmp_path_factory.mktemp("poisoned") / "store"
    publish_edition(Store(root))
    return root


class Served(NamedTuple):
    """A server: where it answers, its desk and its store."""

    url: str
    desk: DeskService
    root: Path

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, verify=TLS)

    def open_run(self, version: object = 1, task: str = "discovery", **more: Any) -> dict[str, Any]:
        system = {"name": "tester", "version": str(version), "kind": "desk_only"}
        with self.client() as client:
            reply = client.post("/v1/runs", json={"edition": EDITION, "task": task, "system": system, **more})
        assert reply.status_code == 201, reply.text
        return reply.json()

    def lease(self, run: dict[str, Any], n: int = 1) -> list[dict[str, Any]]:
        with self.client(run["run_token"]) as client:
            reply = client.post(f"/v1/runs/{run['run']}/topics", json={"n": n})
        assert reply.status_code == 200, reply.text
        return reply.json()["topics"]


@contextmanager
def running(root: Path, key: str | None = None, settings: ServiceSettings | None = None) -> Generator[Served]:
    """Serves a store from a thread of this process."""
    desk = make_desk(Store(root), Means(ONE), settings or ServiceSettings())
    urls: Queue[str] = Queue()
    server = make_server(make_app(desk, key, models=ModelProxy(root)), urls.put)
    with listen(Address()) as sock:
        thread = Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        try:
            yield Served(urls.get(timeout=60), desk, root)
        finally:
            server.should_exit = True
            thread.join(60)


Start = Callable[..., Served]


@pytest.fixture
def start(poisoned: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a server over a copy of the poisoned edition; again over the same copy when it is called again."""
    from contextlib import ExitStack

    root = tmp_path / "store"
    shutil.copytree(poisoned, root)
    with ExitStack() as stack:

        def begin(key: str | None = None, **settings: Any) -> Served:
            quotas = settings.pop("quotas", Quotas())
            return stack.enter_context(running(root, key, ServiceSettings(quotas=quotas, **settings)))

        yield begin


@pytest.fixture(scope="module")
def served(poisoned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that the tests of a module share, each with runs of its own."""
    root = tmp_path_factory.mktemp("served") / "store"
    shutil.copytree(poisoned, root)
    with running(root) as found:
        yield found
