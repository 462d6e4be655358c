"""Agreement between labels that several raters gave to the same items."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput

Ratings = NDArray[np.float64]


def weighted_kappa(first: Sequence[int], second: Sequence[int], levels: int) -> float | None:
    """Returns Cohen's kappa with quadratic weights: 1 for equal labels, 0 for agreement by chance.

    `1 - sum(w o) / sum(w e)` with `w = (i - j)^2`, observed shares `o`, and the shares `e` that the
    margins give by chance.

    Args:
        first: Labels 0 to `levels` - 1.
        second: As many labels of the same items, in the same order.
        levels: Number of possible labels.

    Returns:
        None where it is undefined: there is no label, or both raters gave all items the same label.

    Raises:
        BadInput: Different numbers of labels, or one that is not a level.

    Source: Cohen, Psychological Bulletin 70(4), 1968.
    """
    if len(first) != len(second) or any(not 0 <= label < levels for label in (*first, *second)):
        raise BadInput(f"weighted_kappa: two lists of equal length are needed, with labels from 0 to {levels - 1}")
    if not first:
        return None
    observed = np.zeros((levels, levels))
    np.add.at(observed, (np.asarray(first), np.asarray(second)), 1 / len(first))
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0))
    apart = np.subtract.outer(np.arange(levels), np.arange(levels)) ** 2
    by_chance = float((apart * expected).sum())
    return 1 - float((apart * observed).sum()) / by_chance if by_chance else None


def krippendorff_alpha(ratings: Ratings) -> float | None:
    """Returns Krippendorff's alpha for interval data: any number of raters, who may have skipped items.

    `1 - D_o / D_e`: squared differences within items over those among all paired labels.

    Args:
        ratings: `(n_raters, n_items)`; NaN where a rater gave no label. Items with a single label are left out.

    Returns:
        None where it is undefined: no item has two labels, or all labels are equal.

    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, section C with delta of section D.
    """
    given = ~np.isnan(ratings)
    ratings = ratings[:, given.sum(axis=0) >= 2]
    values = ratings[~np.isnan(ratings)]
    if not len(values):
        return None
    each = (~np.isnan(ratings)).sum(axis=0)
    within = float((np.nansum((ratings - np.nanmean(ratings, axis=0)) ** 2, axis=0) * each / (each - 1)).sum())
    among = float(((values - values.mean()) ** 2).sum()) * len(values) / (len(values) - 1)
    return 1 - within / among if among > 1e-12 else None
