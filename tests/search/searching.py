"""A small search benchmark: queries and recorded results written as files, judged by a scripted endpoint."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import SecretStr

from schemas.llm import ModelName, Price
from schemas.llm_settings import LlmAccess, LlmSettings
from schemas.manifest import Ref
from schemas.search import EngineSettings, JudgeSettings
from tasks.search.judgments import judge
from tasks.search.queries import QuerySettings, open_query_files, open_result_file, search_queries
from tasks.search.results import search_results
from tasks.search.scores import SearchScoreSettings, search_scores
from tasks.store.dataset import Dataset
from tasks.store.store import Built, Request, Store
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion

MODEL = ModelName(provider="scripted", model="m")

Paper = tuple[str, str, str]
"""Title, abstract, id."""


def told(score: Any, confidence: Any = 7, sentence: Any = "It fits.") -> str:
    """A judgment as a model writes it."""
    values = {"relevanceScore": score, "confidenceLevel": confidence, "summaryStatement": sentence}
    return json.dumps({"paper_query_relevance": values})


def shown(seen: Seen, name: str) -> str:
    """A text that the judge was shown, by the name it was delimited with."""
    text = seen.json["messages"][1]["content"]
    found = re.search(rf"\[\[{name} (\w+)\]\]\n(.*?)\n\[\[end {name} \1\]\]", text, re.S)
    return found[2] if found else ""


class Judging:
    """A store, a scripted judge, and the stages between them.

    Args:
        folder: For files and the store.
        server: The judge's model.
        queries: Text by key; every query has a `length` of `Sentence`.
    """

    def __init__(self, folder: Path, server: ScriptedServer, queries: Mapping[str, str]) -> None:
        self.folder, self.server = folder, server
        self.store = Store(folder / "store")
        content = {key: {"search_query": text, "settings": {"length": "Sentence"}} for key, text in queries.items()}
        path = folder / "t.json"
        path.write_text(json.dumps(content))
        request = Request(search_queries, QuerySettings(), {"files": open_query_files([path])})
        self.queries = self.store.build(request).ref
        self.results: dict[str, Ref] = {}

    def add(self, engine: str, found: Mapping[str, Sequence[Paper]]) -> None:
        """An engine that returned these papers."""
        rows = [
            {"query_key": f"t/{key}", "rank": rank, "title": title, "abstract": abstract, "id": name}
            for key, papers in found.items()
            for rank, (title, abstract, name) in enumerate(papers, 1)
        ]
        path = self.folder / f"{engine}.jsonl"
        pl.DataFrame(rows).write_ndjson(path)
        settings = EngineSettings(engine="file", engine_version=1, tag=engine)
        request = Request(search_results, settings, {"queries": self.queries, "recorded": open_result_file(path)})
        self.results[engine] = self.store.build(request).ref

    def access(self, **more: Any) -> LlmAccess:
        plain: dict[str, Any] = {
            "base_url": self.server.url,
            "model": "m",
            "provider": "scripted",
            "cache": self.folder / "calls.sqlite",
            "concurrency": 2,
            "retry": {"tries": 2, "base_s": 0.001, "cap_s": 0.01, "timeout_s": 5},
            "prices": {"m": Price(input=1, output=1)},
        }
        return LlmAccess(LlmSettings.model_validate(plain | more), SecretStr("k"))

    def judge(self, *, force: bool = False, llm: Mapping[str, Any] | None = None, **more: Any) -> Built:
        """Judges what all engines so far returned."""
        plain: dict[str, Any] = {
            "judge": "paper_lantern",
            "judge_version": 1,
            "model": MODEL,
            "engines": tuple(self.results),
            "tag": "j",
        }
        settings = JudgeSettings.model_validate(plain | more)
        inputs = {"queries": self.queries} | {f"results:{tag}": ref for tag, ref in self.results.items()}
        return self.store.build(Request(judge, settings, inputs), force=force, llm=self.access(**(llm or {})))

    def judgments(self, **more: Any) -> list[dict[str, Any]]:
        return self.store.open(self.judge(**more).ref).table().to_pylist()

    def scores(self, **more: Any) -> Dataset:
        """Scores by what all engines so far returned."""
        inputs = {"queries": self.queries, "judgments": self.judge(**more).ref}
        inputs |= {f"results:{tag}": ref for tag, ref in self.results.items()}
        request = Request(search_scores, SearchScoreSettings(resamples=200), inputs)
        return self.store.open(self.store.build(request).ref)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Query and title of every call so far that began a conversation."""
        return [
            (shown(seen, "query"), shown(seen, "title")) for seen in self.server.seen if len(seen.json["messages"]) == 2
        ]


def always(text: str) -> list[Answer]:
    return [completion(text)]
