"""Precision at a cutoff."""

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.ranking.measure import Judged, measure


@measure("P_10", label="Precision@10", tables=("discovery",), order=3, k=10)
@measure("P_100", label="Precision@100", tables=("discovery",), order=4, k=100)
def precision(judged: Judged, k: int) -> NDArray[np.float64]:
    """Share of relevant documents (any label >= 1) among the first `k` places; a shorter list is divided by `k` too.

    Source: trec_eval `P`; ResearchArena, Table 1.
    """
    return (judged.retrieved[:, :k] > 0).sum(axis=1) / k
