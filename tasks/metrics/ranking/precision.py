"""Precision at a cutoff."""

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.ranking.measure import Judged, measure


@measure("P_10", k=10)
@measure("P_100", k=100)
def precision(judged: Judged, k: int) -> NDArray[np.float64]:
    """Share of relevant documents (any label >= 1) among the first `k` places; a shorter list is divided by `k` too.

    Source: trec_eval `P`; ResearchArena, Table 1.
    """
    return (judged.retrieved[:, :k] > 0).sum(axis=1) / k
