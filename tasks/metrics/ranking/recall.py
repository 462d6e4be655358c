"""Recall at a cutoff."""

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.ranking.measure import Judged, measure


@measure("recall_10", label="Recall@10", tables=("discovery",), order=1, k=10)
@measure("recall_100", label="Recall@100", tables=("discovery",), order=2, k=100)
def recall(judged: Judged, k: int) -> NDArray[np.float64]:
    """Share of all relevant documents (any label >= 1) that are among the first `k`; 0 when nothing is relevant.

    Source: trec_eval `recall`; ResearchArena, Table 1.
    """
    hits = (judged.retrieved[:, :k] > 0).sum(axis=1)
    return hits / np.maximum((judged.relevant > 0).sum(axis=1), 1)
