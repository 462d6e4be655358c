"""The process of a foreign system: it holds the system, and a socket to the desk; no qrels, and no way to the store."""

import importlib.machinery
import os
import signal
import socket
import sys
from datetime import date
from typing import Any

import numpy as np

from schemas.errors import ArenaError, BadInput
from schemas.identifiers import CorpusId
from schemas.llm import Message, ModelName, Reply
from schemas.tables.runs import StepRow
from schemas.topic import Hit, Topic
from tasks.llm.asker import Asker
from tasks.ranking.baseline import Baseline, Kit, collect_baselines, load_entry
from tasks.ranking.isolated.fence import Fence, restrict
from tasks.ranking.isolated.values import (
    Value,
    pack_call,
    pack_query,
    pack_ranking,
    read_array,
    read_reply,
)
from tasks.ranking.isolated.wire import Ended, Wire
from tasks.retrieval.desk import PAGE, Neighbours, ResearchDesk, Search
from tasks.retrieval.documents import Document
from tasks.store.parent import end_with_parent


class _Parent:
    """The process that runs the system: it answers calls, one at a time."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def call(self, name: str, *arguments: object) -> Any:
        """Returns the answer to a call.

        Raises:
            BadInput: As the desk says.
        """
        self.wire.send({"call": name, "arguments": arguments})
        answer = self.wire.receive()
        if "error" in answer:
            raise BadInput(answer["error"])
        return answer["value"]


class _RemoteDesk(ResearchDesk):
    """A desk that asks the desk of the other process; it holds nothing itself."""

    def __init__(self, topic: Topic, parent: _Parent) -> None:
        self.topic = topic
        self._parent = parent

    @property
    def searches(self) -> tuple[Search, ...]:
        return tuple(Search(*row) for row in self._parent.call("searches"))

    @property
    def steps(self) -> tuple[StepRow, ...]:
        return tuple(StepRow(*row) for row in self._parent.call("steps"))

    @property
    def engines(self) -> tuple[str, ...]:
        return tuple(self._parent.call("engines"))

    @property
    def primary(self) -> str:
        return self._parent.call("primary")

    def search(self, query: Any, k: int, engine: str | None = None) -> list[Hit]:
        found = self._parent.call("search", pack_query(query), int(k), engine)
        return [Hit(CorpusId(corpus_id), score) for corpus_id, score in found]

    def read(self, ids: Any) -> list[Document]:
        return [Document(*row) for row in self._parent.call("read", [int(i) for i in ids])]

    @property
    def has_graph(self) -> bool:
        return self._parent.call("has_graph")

    def references(self, corpus_id: int, k: int = PAGE, offset: int = 0) -> Neighbours:
        return Neighbours(*self._parent.call("references", int(corpus_id), int(k), int(offset)))

    def citations(self, corpus_id: int, k: int = PAGE, offset: int = 0) -> Neighbours:
        return Neighbours(*self._parent.call("citations", int(corpus_id), int(k), int(offset)))

    @property
    def has_terms(self) -> bool:
        return self._parent.call("has_terms")

    @property
    def has_vectors(self) -> bool:
        return self._parent.call("has_vectors")

    @property
    def vector_engines(self) -> tuple[str, ...]:
        return tuple(self._parent.call("vector_engines"))

    @property
    def spaces(self) -> tuple[str, ...]:
        return tuple(self._parent.call("spaces"))

    def ages(self, ids: Any) -> Any:
        return np.array(self._parent.call("ages", [int(i) for i in ids]), np.int64)

    def vectors(self, ids: Any, engine: str | None = None) -> Any:
        return read_array(self._parent.call("vectors", [int(i) for i in ids], engine))

    def embed(self, texts: Any, engine: str | None = None) -> Any:
        return read_array(self._parent.call("embed", list(texts), engine))

    def terms(self, text: str) -> list[str]:
        return self._parent.call("terms", text)

    def document_frequency(self, term: str) -> int:
        return self._parent.call("document_frequency", term)

    @property
    def n_documents(self) -> int:
        return self._parent.call("n_documents")

    def require_allowed(self, ids: Any) -> None:
        self._parent.call("require_allowed", [int(i) for i in ids])


class _RemoteAsker(Asker):
    """Asks a model through the other process, which keeps the key, the cache, the cap and the record."""

    def __init__(self, parent: _Parent) -> None:
        self._parent = parent
        self._model = ModelName(provider="-", model="-")

    def converse(
        self, messages: tuple[Message, ...], answer: Any = None, *, prompt: Any = None, **further: Any
    ) -> Reply[Any]:
        call = pack_call(messages, answer, {**further, "prompt": prompt and list(prompt)})
        return read_reply(self._parent.call("converse", call), answer)


def main() -> None:
    """Loads a foreign system behind the fence and runs it; arguments: number of the socket, parent's process id."""
    end_with_parent(signal.SIGKILL, int(sys.argv[2]))
    wire = Wire(socket.socket(fileno=int(sys.argv[1])))
    start = wire.receive()
    sys.dont_write_bytecode = True
    for entry in sys.path:  # folders of the search path cannot be listed from behind the fence
        importlib.machinery.PathFinder.find_spec("_", [entry])
    fenced = restrict(Fence(tuple(start["readable"]), start["writable"], start["network"]))
    os.chdir(start["writable"])
    try:
        found = collect_baselines(lambda: load_entry(start["entry"]))
    except BaseException as error:
        wire.send({"error": f"{type(error).__name__}: {error}"})
        return
    wire.send({"fenced": fenced, "registered": [_describe(one) for one in found.values()]})
    parent = _Parent(wire)
    while True:
        wire.send(_answer(found, parent, wire.receive()))


def _describe(found: Baseline) -> Value:
    asks = None if found.asks is None else list(found.asks)
    described = {"name": found.name, "description": found.description, "version": found.version}
    return {**described, "asks": asks, "graph": found.graph}


def _answer(found: dict[str, Baseline], parent: _Parent, asked: Value) -> Value:
    """Returns the system's answer for a topic, or what it raised."""
    corpus_id, title, horizon = asked["topic"]
    topic = Topic(CorpusId(corpus_id), title, date.fromisoformat(horizon))
    asker = _RemoteAsker(parent) if asked["model"] else None
    kit = Kit(_RemoteDesk(topic, parent), asked["cutoff"], asked["seed"], asker, asked["parameters"])
    try:
        return {"ranking": pack_ranking(found[asked["name"]].system(topic, kit))}
    except Ended:
        raise
    except ArenaError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    try:
        main()
    except Ended:
        sys.exit(0)
