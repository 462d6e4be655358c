"""kill -9 at twenty random moments of encoding: no text is encoded twice but those of the last seconds."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.settings import EncoderSettings
from tasks.index import checkpoint
from tasks.index import embeddings as stages
from tests.conftest import REPOSITORY
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents

KILLS, TEXTS, BLOCK, KEPT_SECONDS, SECONDS_A_TEXT = 20, 30_000, 64, 0.25, 0.0005

pytestmark = pytest.mark.e2e


class CountingEncoder:
    """A toy encoder: takes its time, and writes down what it has encoded."""

    dimensions, max_tokens, batch_size, parallel, weights = 8, 8, 8, 1, "none"

    def __init__(self, settings: EncoderSettings, *options: Any) -> None:
        self.settings = settings

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        time.sleep(SECONDS_A_TEXT * len(texts))
        with Path(self.settings.model).open("a") as log:
            log.write("".join(f"{text}\n" for text in texts))
        vectors = np.array([[*map(float, f"{int(text):08d}")] for text in texts], np.float32) + 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def build(root: Path) -> Any:
    """Builds embeddings of numbers in two buckets, and returns the manifest."""
    patch = pytest.MonkeyPatch()
    patch.setattr(stages, "Encoder", CountingEncoder)
    patch.setattr(checkpoint, "BLOCK", BLOCK)
    patch.setattr(checkpoint, "KEPT_SECONDS", KEPT_SECONDS)
    with patch.context():
        corpus = Corpus(root)
        rows = ({"corpus_id": number, "title": str(number)} for number in range(TEXTS))
        settings = stages.EmbeddingSettings(field="title", encoder=EncoderSettings(model=str(root / "encoded.log")))
        made = corpus.build(stages.embeddings, settings, documents=give_documents(corpus, rows, buckets=2)).manifest
    patch.undo()
    return made


def test_killed_encoding_goes_on_where_it_was(tmp_path: Path) -> None:
    chance = random.Random(7)
    command = f"from tests.e2e.test_embedding_kills import build, Path; build(Path({str(tmp_path)!r}))"
    log = tmp_path / "encoded.log"
    for _ in range(KILLS):
        before = log.stat().st_size if log.exists() else 0
        child = subprocess.Popen(
            [sys.executable, "-c", command], cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
        )
        while not log.exists() or log.stat().st_size == before:
            assert child.poll() is None, "the build ended before it was killed"
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.8))
        child.send_signal(signal.SIGKILL)
        child.wait(30)
    manifest = build(tmp_path)
    encoded = Counter(log.read_text().split())
    assert set(encoded) == {str(number) for number in range(TEXTS)}
    again = sum(encoded.values()) - TEXTS
    a_kill = KEPT_SECONDS / SECONDS_A_TEXT + 2 * BLOCK
    print(f"{KILLS} kills: {again} texts encoded again, at most {a_kill:.0f} a kill were allowed")  # noqa: T201
    assert again <= KILLS * a_kill
    assert manifest.counts.kept == TEXTS
    assert manifest.counts.notes == {"encoded": TEXTS, "reused": 0}
