"""Acronyms and their long forms, as abstracts define them."""

import pytest

from tasks.ranking.expansion.acronyms import find_definitions, other_forms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We train a graph neural network (GNN) on", [("GNN", "graph neural network")]),
        (
            "as in reinforcement learning from human feedback (RLHF).",
            [("RLHF", "reinforcement learning from human feedback")],
        ),
        ("We use it. Large language models (LLMs) can", [("LLMs", "Large language models")]),
        ("the Stochastic Gradient-descent method (SGD-m) is", [("SGD-m", "Stochastic Gradient-descent method")]),
        ("two-dimensional (2D) maps", []),
        ("birds (see above), terns (gulls) and (1999)", []),
        ("a network (GNN) alone", []),
        ("graphs. A neural network (GNN) ends at the sentence", []),
        ("", []),
    ],
)
def test_definitions(text: str, expected: list[tuple[str, str]]) -> None:
    assert [tuple(found) for found in find_definitions(text)] == expected


TEXTS = [
    "Graph neural networks (GNNs) are", "A graph neural network (GNN) is", "Graph neural networks (GNNs)",
    "Gross national number (GNN)", "Large language models (LLMs)", "Large language model (LLM)",
]  # fmt: skip


def test_both_directions_and_the_sense_that_most_papers_give() -> None:
    assert other_forms("GNNs for molecules: a survey", TEXTS) == ["graph neural networks"]
    assert other_forms("A survey of large language models", TEXTS) == ["llm"]
    assert other_forms("Graph neural networks (GNNs): a survey", TEXTS) == []
    assert other_forms("A survey of gnn", TEXTS[3:]) == [], "one paper alone defines it"
    assert other_forms("", TEXTS) == []
