"""A site over two editions that have everything a page can show: runs, a submission, mind-maps, search, questions."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

from schemas.manifest import Ref
from tasks.site.site import write_site
from tasks.store.store import Store
from tests.reports.test_paperqa import publish_answers
from tests.search.test_scores import Levels, publish_search
from tests.site.synthetic import publish_runs, record

OLD, NEW = "2026-01-06", "2026-01-13"
TOPICS = 24
OURS = ["title.bm25.abstract", "feedback.bm25.abstract", "zero_shot.bm25.abstract+stand-in"]
THEIRS = "agent@1"
FIRST_SET = "queries"


class Site(NamedTuple):
    """A written site and its store."""

    store: Store
    folder: Path

    def pages(self) -> Iterator[tuple[Path, "Parsed"]]:
        """Every page, parsed."""
        for path in sorted(self.folder.rglob("*.html")):
            yield path, Parsed.of(path)


class Parsed(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    @classmethod
    def of(cls, path: Path) -> "Parsed":
        parsed = cls()
        parsed.feed(path.read_text(encoding="utf-8"))
        return parsed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def publish_everything(store: Store) -> None:
    """Two editions; only the newer one has a submission, judged search engines and questions over papers."""
    record(store, OLD, publish_runs(store, TOPICS - 4, OURS))
    slots = publish_runs(store, TOPICS, [*OURS, THEIRS])
    levels: Levels = {f"ai/q{n}": {"a": 5, "b": 1, "<i>c": 3} for n in range(6)}
    lists = {"good": {key: ["a"] for key in levels}, "poor": {"ai/q0": ["b"]}}
    judgments, scored = publish_search(store, levels, lists)
    for name, ref in scored.manifest.inputs.items():
        if isinstance(ref, Ref) and name != "judgments":
            slots[f"search/{FIRST_SET}/{name.replace(':', '/')}"] = ref
    slots |= {f"search/{FIRST_SET}/judgments/j": judgments.ref, f"search/{FIRST_SET}/scores/j": scored.ref}
    for name, ref in publish_answers(store).items():
        kind, _, tag = name.removeprefix("paperqa_").partition(":")
        slots[f"airqa/{kind}/{tag}" if tag else f"airqa/{kind}"] = ref
    record(store, NEW, slots)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    store = Store(folder / "store")
    publish_everything(store)
    write_site(store, [OLD, NEW], folder / "out")
    return Site(store, folder / "out")
