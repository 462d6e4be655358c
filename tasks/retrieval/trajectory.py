"""What a system asked of its desk, step by step, as far as pages show it."""

from collections.abc import Sequence

from schemas.tables.runs import StepRow

MOST_STEPS = 50
"""Searches and lookups of a topic that are kept, and as many readings."""

MOST_PAPERS = 10
"""Papers of a step that are kept."""


class Trajectory:
    """The first steps of a system on one topic.

    Args:
        topic_id: The topic.
    """

    def __init__(self, topic_id: int) -> None:
        self.steps: list[StepRow] = []
        self._topic_id = topic_id
        self._asked = [0, 0]

    def add(self, papers: Sequence[int], search: int | None = None) -> None:
        """Adds a step, unless as many of its kind are there.

        Args:
            papers: All papers that came back, best first, or that were read.
            search: Position among the searches and lookups; None: documents were read.
        """
        kind = int(search is None)
        self._asked[kind] += 1
        if self._asked[kind] <= MOST_STEPS:
            shown = list(map(int, papers[:MOST_PAPERS]))
            self.steps.append(StepRow(self._topic_id, len(self.steps), search, shown, len(papers)))
