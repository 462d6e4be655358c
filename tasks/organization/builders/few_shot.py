"""A model's own mind-map of a title, after mind-maps of other surveys: no reference is read."""

import json
from typing import Any

from schemas.llm import Demand, Parameters
from schemas.mindmap import MapAnswer, Tree, parse_tree
from tasks.organization.builder import Material, Organized, builder, lone_node
from tasks.organization.examples import Example

WRITING = Parameters(max_tokens=1024)


@builder(
    "few_shot",
    "A model's mind-map of the title, after maps of other surveys.",
    needs=["examples"],
    asks=Demand(calls=1, read=600, written=400),
)
def few_shot(material: Material) -> Organized:
    """Asks once, and once more when the answer is no map; then the lone title stands in.

    Source: section 4.3 of the ResearchArena paper (arXiv 2406.10291); its prompt and its choice of examples are not
    published.
    """
    values = {"title": material.topic.title, "examples": [_shown(example) for example in material.examples]}
    reply = material.model.ask("few_shot_map", values, MapAnswer, parameters=WRITING)
    if reply.answer is None:
        return Organized(lone_node(material.topic), note=reply.reason, fallback=True)
    return Organized(reply.answer.tree)


def _shown(example: Example) -> dict[str, str]:
    """The example as the prompt shows it; its map in the form that is asked for."""
    return {
        "example_title": example.title,
        "example_map": json.dumps(_headings(parse_tree(example.tree)["children"]), ensure_ascii=False),
    }


def _headings(nodes: list[Tree]) -> dict[str, Any]:
    """Nodes as keys of nested objects; siblings of one heading become one."""
    return {node["label"]: _headings(node["children"]) for node in nodes}
