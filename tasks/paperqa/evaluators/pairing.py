"""One-to-one pairing of two lists by a relation that need not be an equivalence (fuzzy texts, tolerances)."""

from collections.abc import Callable, Sequence


def largest_pairing(
    left: Sequence[object], right: Sequence[object], fits: Callable[[object, object], bool], enough: int | None = None
) -> int:
    """Size of the largest set of disjoint pairs (one of left, one of right) that fit.

    Args:
        left: The shorter list, as a rule; the search recurses at most as deep as it is long.
        right: The other list.
        fits: The relation; asked at most once for a pair.
        enough: Stop at this size.

    Source: augmenting paths (Kuhn's algorithm).
    """
    partner: dict[int, int] = {}
    fitting: dict[int, list[int]] = {}

    def place(i: int, tried: set[int]) -> bool:
        if i not in fitting:
            fitting[i] = [j for j, other in enumerate(right) if fits(left[i], other)]
        for j in fitting[i]:
            if j not in tried:
                tried.add(j)
                if j not in partner or place(partner[j], tried):
                    partner[j] = i
                    return True
        return False

    for i in range(len(left)):
        if enough is not None and len(partner) >= enough:
            break
        place(i, set())
    return len(partner)
