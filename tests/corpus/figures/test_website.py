"""Figures from a web server that is slow, wrong, hostile, or gone."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.errors import BadInput, TransientError
from schemas.tables.topics import TOPICS
from tasks.corpus.figures.stage import FigureSettings, figures
from tasks.corpus.figures.website import HttpFigures, HttpFigureSettings
from tests.corpus.conftest import Corpus
from tests.corpus.figures.conftest import entry, png
from tests.llm.scripted_server import Answer, ScriptedServer, Seen

RETRY = {"tries": 3, "base_s": 0.001, "cap_s": 0.02, "timeout_s": 0.5, "connect_timeout_s": 1}


def settings(server: ScriptedServer, **changes: Any) -> HttpFigureSettings:
    plain = {
        "list_url": f"{server.url}/{{corpus_id}}.json",
        "picture_url": f"{server.url}/{{corpus_id}}/{{picture}}",
        "per_second": 100,
        "retry": RETRY,
    }
    return HttpFigureSettings.model_validate(plain | changes)


def source(server: ScriptedServer, folder: Path, max_bytes: int = 1000) -> HttpFigures:
    return HttpFigures(settings(server), folder, max_bytes)


def site(seen: Seen, _: int) -> Answer:
    """A paper with one figure and a picture that is not there; nothing else."""
    found = {
        "/v1/1.json": json.dumps([entry("1-Figure1-1.png"), entry("gone.png")]).encode(),
        "/v1/1/1-Figure1-1.png": png(),
    }
    return Answer(found[seen.path]) if seen.path in found else Answer(b"no", 404)


def test_an_edition_fetches_once_and_the_next_only_the_lists(server: ScriptedServer, tmp_path: Path) -> None:
    server.play(site)
    corpus = Corpus(tmp_path / "root")
    chosen = FigureSettings(http=settings(server))
    for more in ([], [2]):
        rows = [{"topic_id": i, "outcome": "kept"} for i in (1, *more)]
        dataset = corpus.build(figures, chosen, topics=corpus.given("topics", {TOPICS: rows}))
        assert dataset.manifest.counts.kept == 1
        assert dataset.manifest.counts.dropped == {"no_picture": 1}
    asked = [seen.path for seen in server.seen]
    assert asked == [
        "/v1/1.json", "/v1/1/1-Figure1-1.png", "/v1/1/gone.png", "/v1/1.json", "/v1/1/gone.png", "/v1/2.json",
    ]  # fmt: skip


def test_what_may_pass_is_tried_again_and_what_was_fetched_is_kept(server: ScriptedServer, tmp_path: Path) -> None:
    server.play([Answer(b"", 503), Answer(b"", 429, {"retry-after": "0"}), Answer(png())])
    with source(server, tmp_path) as found:
        assert found.picture(1, "a.png").data == png()
        assert found.picture(1, "a.png").url == f"{server.url}/1/a.png"
    assert len(server.seen) == 3
    with source(server, tmp_path) as found:
        assert found.picture(1, "a.png").data == png()
    assert len(server.seen) == 3
    server.play([Answer(b"", 500)])
    with source(server, tmp_path) as found, pytest.raises(TransientError, match=r"HTTP 500 \(tries: 3\)"):
        found.picture(1, "b.png")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(b"x" * 100_000), "too_large"),
        (Answer(b"x" * 1000, endless=True), "too_large"),
        (Answer(b"", 302, {"location": "/v1/again"}), "no_picture"),
        (Answer(b"", 302, {"location": "file:///etc/passwd"}), "no_picture"),
        (Answer(b"", 403), "no_picture"),
        (Answer(b""), "no_picture"),
    ],
)
def test_hostile_answers_end_in_a_reason(server: ScriptedServer, tmp_path: Path, answer: Answer, reason: str) -> None:
    server.play([answer])
    with source(server, tmp_path) as found, pytest.raises(BadInput, match=f"^{reason}$"):
        found.picture(1, "a.png")
    assert len(server.seen) <= 5


def test_a_server_that_hangs_or_is_gone_ends_the_stage(server: ScriptedServer, tmp_path: Path) -> None:
    server.play([Answer(b"x", endless=True, pause_s=0.1)])
    with source(server, tmp_path) as found, pytest.raises(TransientError, match="ReadTimeout"):
        found.picture(1, "a.png")
    server.play([Answer(b"x" * 500, cut=10)])
    with source(server, tmp_path) as found, pytest.raises(TransientError):
        found.picture(1, "b.png")


def test_names_are_quoted_and_templates_checked(server: ScriptedServer, tmp_path: Path) -> None:
    server.play([Answer(png())])
    with source(server, tmp_path) as found:
        found.picture(1, "../x?y#z.png")
    assert server.seen[0].path == "/v1/1/..%2Fx%3Fy%23z.png"
    for wrong in (
        "ftp://h/{corpus_id}",
        "http://h/",
        "http://u:p@h/{corpus_id}",
        "http://h/{corpus_id",
        "http://h/{x}",
    ):
        with pytest.raises(ValidationError):
            settings(server, list_url=wrong)


@pytest.mark.parametrize(
    "field",
    [
        "corpus_id:09d", "corpus_id!r", "corpus_id.real", "corpus_id[0]", "corpus_id:{picture}", "picture.__class__",
        "0", "", "corpus_id!r:>9999999999",
    ],
)  # fmt: skip
def test_a_template_holds_plain_names_only(server: ScriptedServer, field: str) -> None:
    with pytest.raises(ValidationError, match="no other braces"):
        settings(server, list_url=f"http://h/{{corpus_id}}/{{{field}}}")


def test_a_redirect_stays_at_the_hosts_of_the_urls(server: ScriptedServer, tmp_path: Path) -> None:
    elsewhere = f"{server.url}/there.png".replace("127.0.0.1", "localhost")
    server.play(lambda seen, _: Answer(png()) if "there" in seen.path else Answer(b"", 302, {"location": elsewhere}))
    with source(server, tmp_path / "refused") as found, pytest.raises(BadInput, match=r"^no_picture$"):
        found.picture(1, "a.png")
    assert len(server.seen) == 1, "the other host was not asked"
    allowed = settings(server, redirect_hosts=("localhost",))
    with HttpFigures(allowed, tmp_path / "allowed", 1000) as found:
        assert found.picture(1, "a.png").data == png()
