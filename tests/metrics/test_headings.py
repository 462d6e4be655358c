"""Heading recalls: against STORM's own numbers, by hand, and with extractors that really find entities."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput, MissingDependency
from tasks.metrics.headings import (
    FlairEntityExtractor,
    RuleEntityExtractor,
    heading_entity_recall,
    heading_soft_recall,
    soft_recall,
)

Cases = Callable[[str], list[dict[str, Any]]]


def encoder(vectors: dict[str, list[float]]):
    return lambda texts: np.array([vectors[text] for text in texts])


def angles(texts: list[str]) -> np.ndarray:
    """A label that is a number is a direction in the plane, in degrees."""
    radians = np.radians([float(text) for text in texts])
    return np.column_stack([np.cos(radians), np.sin(radians)])


@pytest.fixture(scope="session")
def embeddings_in(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], dict[str, list[float]]]:
    """Reads a case's vectors: its own, or those of the file that it names beside the third-party cases."""

    def read(case: dict[str, Any]) -> dict[str, list[float]]:
        if isinstance(case["embeddings"], dict):
            return case["embeddings"]
        return json.loads((request.getfixturevalue("shared") / "oracle" / "minilm_headings.json").read_text())

    return read


def test_soft_recall_of_every_reference_case(
    reference_cases: Cases, embeddings_in: Callable[[dict[str, Any]], dict[str, list[float]]]
) -> None:
    for case in reference_cases("soft_recall"):
        embed = encoder(embeddings_in(case))
        golden, predicted, expected = case["golden"], case["predicted"], case["expected"]
        found = soft_recall(golden, predicted, embed)
        close = {"abs": 1e-6, "rel": 1e-6} if case["min_abs_row_sum"] >= 0.1 else {"rel": 1e-3}
        assert heading_soft_recall(golden, predicted, embed) == found.value
        assert found.value == pytest.approx(expected["heading_soft_recall"], **close), case["id"]
        clipped = heading_soft_recall(golden, predicted, embed, clip=True)
        assert clipped == pytest.approx(expected["heading_soft_recall_clipped01"], abs=1e-6, rel=1e-6), case["id"]
        cardinalities = (found.golden, found.predicted, found.union)
        wanted = [expected[f"card_{name}"] for name in ("golden", "predicted", "union")]
        assert cardinalities == pytest.approx(wanted, **close), case["id"]
        assert found.min_abs_row_sum == pytest.approx(case["min_abs_row_sum"], abs=1e-6), case["id"]
        as_float32 = expected["heading_soft_recall_float32"]
        assert found.value == pytest.approx(as_float32, abs=1e-5, rel=1e-5 if "abs" in close else 1e-3), case["id"]


def test_entity_recall_of_every_reference_case(reference_cases: Cases) -> None:
    for case in reference_cases("entity_recall"):
        found = heading_entity_recall(case["golden_entities"], case["predicted_entities"])
        assert found == case["expected"]["heading_entity_recall"], case["id"]


def test_soft_recall_by_hand() -> None:
    """0 and 90 degrees do not resemble each other; 60 is half like 0 and 0.866 like 90."""
    side = np.sqrt(3) / 2
    card_union = 1 / 1.5 + 1 / (1 + side) + 1 / (1.5 + side)
    assert heading_soft_recall(["0", "90"], ["60"], angles) == pytest.approx((2 + 1 - card_union) / 2)


@given(st.sets(st.integers(0, 89), min_size=1, max_size=6), st.sets(st.integers(0, 89), max_size=6), st.floats(0.1, 9))
def test_soft_recall_knows_sets_and_directions_only(golden: set[int], predicted: set[int], length: float) -> None:
    gold, built = [str(number) for number in golden], [str(number) for number in predicted]
    value = heading_soft_recall(gold, built, angles)
    assert heading_soft_recall(gold + gold[:1], built[::-1] * 2, lambda texts: length * angles(texts)) == pytest.approx(
        value
    )
    assert heading_soft_recall(gold, gold + built, angles) == pytest.approx(1.0)
    assert heading_soft_recall(gold, [], angles) == 0.0


def test_a_row_sum_near_zero_is_logged_and_clipping_cures_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tasks.metrics.headings"):
        heading_soft_recall(["0", "60", "90"], ["120"], angles)
        assert not caplog.records
        exploded = soft_recall(["0", "179"], ["90"], angles)
    assert "sum to 0.000152" in caplog.text
    assert exploded.min_abs_row_sum < 1e-3 < 1e3 < exploded.golden
    assert soft_recall(["0", "179"], ["90"], angles, clip=True).golden == 2.0


def test_encoder_is_called_once_with_distinct_labels() -> None:
    calls: list[list[str]] = []
    heading_soft_recall(["0", "10", "0"], ["10", "20"], lambda texts: calls.append(texts) or angles(texts))
    assert calls == [["0", "10", "20"]]


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 0.0]], r"shape \(1, 2\) for 2 labels, expected \(2, d\)"),
        ([1.0, 0.0], r"shape \(2,\) for 2 labels"),
        ([[1.0, 0.0], [float("nan"), 1.0]], "1 of 2 embeddings are zero or not finite, the first is row 1"),
        ([[float("inf"), 0.0], [0.0, 0.0]], "2 of 2 embeddings are zero or not finite, the first is row 0"),
        ([[1.0], [1.0, 2.0]], "no array of numbers"),
        (None, r"shape \(\) for 2 labels"),
        ([[1.0], [-1.0]], "cancel out"),
    ],
)
def test_embeddings_that_cannot_be_used_are_refused(vectors: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        heading_soft_recall(["a", "b"], ["a"], lambda _: vectors)


def test_no_gold_label_is_undefined_for_soft_recall_and_full_marks_for_entities() -> None:
    with pytest.raises(BadInput, match="no gold label"):
        heading_soft_recall([], ["0"], angles)
    assert heading_entity_recall([], ["bert"]) == 1.0
    assert heading_entity_recall(["bert", "bert", "gpt"], ["bert"]) == 0.5


def test_an_encoder_that_fails_is_not_silenced() -> None:
    def broken(_: list[str]) -> np.ndarray:
        raise ConnectionError("no encoder")

    with pytest.raises(ConnectionError, match="no encoder"):
        heading_soft_recall(["a"], ["b"], broken)


@pytest.mark.parametrize(
    ("heading", "entities"),
    [
        ("Fine-tuning of BERT and GPT-4", {"bert", "gpt-4"}),
        (
            "Models trained at Stanford University, Google and IBM Watson",
            {"stanford university", "google", "ibm watson"},
        ),
        ("Graph Neural Networks", set()),
        ("Cellular Networks beyond 5G", {"5g"}),
        ("RELATED WORK", set()),
        ("BERT (2018)", {"bert"}),
        ("deep learning", set()),
        ("", set()),
    ],
)
def test_names_are_told_by_their_spelling(heading: str, entities: set[str]) -> None:
    assert RuleEntityExtractor()([heading]) == entities


def test_the_stand_in_never_reports_under_the_name_of_flair() -> None:
    assert RuleEntityExtractor.metric != FlairEntityExtractor.metric
    assert RuleEntityExtractor()(["ImageNet", "imageNET and WordNet"]) == {"imagenet", "wordnet"}


def test_without_flair_the_error_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flair.data", None)
    with pytest.raises(MissingDependency, match=r"pip install 'research-arena\[flair\]'"):
        FlairEntityExtractor()(["BERT"])


@pytest.mark.long
def test_flair_tags_every_heading_with_a_tagger_from_a_file(tmp_path: Path) -> None:
    """A tagger of a few hundred weights learns two names; loading and tagging are those of the real model."""
    pytest.importorskip("flair", reason="FLAIR is not installed (pip install 'research-arena[flair]')")
    import flair
    import torch
    from flair.data import Dictionary, Sentence
    from flair.embeddings import OneHotEmbeddings
    from flair.models import SequenceTagger

    flair.set_seed(42)
    texts = {
        "studies at Stanford University today": (2, 4),
        "models by Google for speech": (2, 3),
        "deep graph models": None,
    }
    words, tags = Dictionary(), Dictionary(add_unk=False)
    tags.span_labels = True
    tags.add_item("ORG")
    sentences = []
    for text, span in texts.items():
        sentences.append(Sentence(text))
        for word in text.split():
            words.add_item(word)
        if span:
            sentences[-1][span[0] : span[1]].add_label("ner", "ORG")
    embeddings = OneHotEmbeddings(words, embedding_length=16)
    tagger = SequenceTagger(
        embeddings, tags, "ner", hidden_size=16, use_crf=False, word_dropout=0.0, locked_dropout=0.0
    )
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        for sentence in sentences:
            sentence.clear_embeddings()  # their graph was freed by the last step
        loss, _ = tagger.forward_loss(sentences)
        loss.backward()
        optimizer.step()
    tagger.save(tmp_path / "tagger.pt")

    extractor = FlairEntityExtractor(str(tmp_path / "tagger.pt"))
    assert extractor([*texts, "", " "]) == {"stanford university", "google"}
    assert extractor(["deep graph models"]) == set()
    assert extractor.is_at_hand()


def test_a_downloaded_model_of_flair_is_at_hand_and_another_is_missed_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flair = pytest.importorskip("flair", reason="FLAIR is not installed (pip install 'research-arena[flair]')")
    monkeypatch.setattr(flair, "cache_root", tmp_path)
    model = tmp_path / "models" / "tiny" / "models--lab--tiny"
    (model / "snapshots" / "abc").mkdir(parents=True)
    (model / "snapshots" / "abc" / "pytorch_model.bin").write_bytes(b"weights")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    assert FlairEntityExtractor("lab/tiny").is_at_hand()
    assert not caplog.records
    for _ in range(3):
        assert not FlairEntityExtractor("lab/other").is_at_hand()
    assert "its model lab/other is not on this machine" in caplog.text
    assert len(caplog.records) == 1


def test_without_flair_no_model_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.metrics.headings.find_spec", lambda _: None)
    (tmp_path / "tagger.pt").touch()
    assert not FlairEntityExtractor(str(tmp_path / "tagger.pt")).is_at_hand()
