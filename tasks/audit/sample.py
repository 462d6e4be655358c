"""Draws the items of an edition that people check; the sample depends on the seed and the ids alone."""

from collections.abc import Iterable
from random import Random

from schemas.errors import BadInput


def draw_sample(ids: Iterable[int], n: int, seed: int) -> list[int]:
    """Draws `n` of the ids without replacement, or all when there are fewer, in the order in which to judge them.

    Raises:
        BadInput: There are no ids.
    """
    found = sorted(ids)
    if not found:
        raise BadInput("nothing to draw a sample from: the edition has none")
    return Random(seed).sample(found, min(n, len(found)))  # noqa: S311
