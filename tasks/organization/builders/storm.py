"""Turns the outline that the STORM agent wrote while it searched into a tree."""

from schemas.errors import BadInput
from schemas.outline import parse_outline
from tasks.organization.builder import Material, Organized, builder, lone_node


@builder("storm", "The outline that the STORM agent wrote while it searched.", needs=["outline"])
def storm(material: Material) -> Organized:
    """Reads headings and bullets as nodes; returns the title alone as a fallback when there is no outline.

    Source: section 4.3 of the ResearchArena paper (arXiv 2406.10291).
    """
    try:
        return Organized(parse_outline(material.outline or ""))
    except BadInput as error:
        return Organized(lone_node(material.topic), note=str(error), fallback=True)
