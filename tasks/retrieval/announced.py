"""Searches that are known before they are made, answered many at a time."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

from schemas.errors import ArenaError
from tasks.retrieval.retriever import Allowed, Found

TOGETHER = 256
"""Searches answered at once."""


class Announced(NamedTuple):
    """A search for a text that a topic will make."""

    query: str
    k: int
    allowed: Allowed

    @property
    def key(self) -> tuple[str, int, int]:
        """Tells the announced searches of a run apart."""
        return self.query, self.k, self.allowed.topic_id


class AnnouncedSearches:
    """Answers of announced searches. The first search of a group answers the group; each answer is given once.

    Args:
        search: Answers several searches at once.
    """

    def __init__(self, search: Callable[[Sequence[Announced]], list[Found]]) -> None:
        self._search = search
        self._lock = Lock()
        self._groups: dict[tuple[str, int, int], list[Announced]] = {}
        self._answers: dict[tuple[str, int, int], Found] = {}

    def add(self, searches: Sequence[Announced]) -> None:
        """Announces searches; those with the same text, number and topic count once."""
        with self._lock:
            for start in range(0, len(searches), TOGETHER):
                group = list(searches[start : start + TOGETHER])
                self._groups.update({search.key: group for search in group})

    def take(self, wanted: Announced) -> Found | None:
        """Returns the answer of a search, or None if it was not announced under the same filter, or was taken."""
        with self._lock:
            group = self._groups.get(wanted.key)
            if group is None or not any(_is_same(search, wanted) for search in group):
                return None
            if wanted.key not in self._answers and not self._answer(group):
                return None
            del self._groups[wanted.key]
            return self._answers.pop(wanted.key)

    def _answer(self, group: Sequence[Announced]) -> bool:
        """Answers a group; if a search in it fails, forgets the group, so that each fails or succeeds by itself."""
        waiting = [search for search in group if search.key in self._groups]
        try:
            found = self._search(waiting)
        except ArenaError:
            for search in waiting:
                del self._groups[search.key]
            return False
        self._answers |= {search.key: answer for search, answer in zip(waiting, found, strict=True)}
        return True


def _is_same(search: Announced, wanted: Announced) -> bool:
    ours, theirs = search.allowed, wanted.allowed
    same_filter = ours.catalogue is theirs.catalogue and ours.horizon == theirs.horizon and ours.only is theirs.only
    return search.key == wanted.key and same_filter
