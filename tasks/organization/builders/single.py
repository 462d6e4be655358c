"""The survey's title as the whole tree: what any other builder has to be worth."""

from tasks.organization.builder import Material, Organized, builder, lone_node


@builder("single", "One node, the survey's title.")
def single(material: Material) -> Organized:
    """Returns a tree of one node.

    A distance counts the gold map's missing nodes alone against it, so it can beat trees that try: read tree distances
    beside this row.
    """
    return Organized(lone_node(material.topic))
