"""One-to-one matching of two lists by a relation that need not be an equivalence (fuzzy texts, tolerances)."""

from collections.abc import Callable, Sequence


def largest_pairing(
    left: Sequence[object], right: Sequence[object], fits: Callable[[object, object], bool], enough: int | None = None
) -> int:
    """Returns the size of a maximum bipartite matching.

    Args:
        left: Usually the shorter list; the recursion is at most as deep as its length.
        right: The other list.
        fits: The relation; called at most once per pair.
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
