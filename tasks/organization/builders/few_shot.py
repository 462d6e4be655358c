"""Asks a model for a mind-map of the title, with mind-maps of other surveys as examples; reads no reference."""

import json
from typing import Any

from schemas.llm import Demand
from schemas.mindmap import MapAnswer, Tree, parse_tree
from tasks.organization.builder import Material, Organized, builder, lone_node
from tasks.organization.examples import Example


@builder(
    "few_shot",
    "A model's mind-map of the title, after maps of other surveys.",
    needs=["examples"],
    asks=Demand(calls=1, read=600, written=400),
)
def few_shot(material: Material) -> Organized:
    """Asks once, and again when the answer is no map; if that fails too, returns the title alone as a fallback.

    Source: section 4.3 of the ResearchArena paper (arXiv 2406.10291); its prompt and its choice of examples are not
    published.
    """
    values = {"title": material.topic.title, "examples": [_shown(example) for example in material.examples]}
    reply = material.model.ask("few_shot_map", values, MapAnswer)
    if reply.answer is None:
        return Organized(lone_node(material.topic), note=reply.reason, fallback=True)
    return Organized(reply.answer.tree)


def _shown(example: Example) -> dict[str, str]:
    """Returns an example as the prompt shows it, its map in the form that the answer must have."""
    return {
        "example_title": example.title,
        "example_map": json.dumps(_headings(parse_tree(example.tree)["children"]), ensure_ascii=False),
    }


def _headings(nodes: list[Tree]) -> dict[str, Any]:
    """Returns nodes as keys of nested objects; siblings with the same heading become one."""
    return {node["label"]: _headings(node["children"]) for node in nodes}
