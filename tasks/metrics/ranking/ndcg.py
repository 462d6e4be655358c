"""Normalised discounted cumulative gain at a cutoff."""

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.ranking.measure import Judged, measure


@measure("ndcg_cut_10", label="nDCG@10", tables=("selection",), order=1, k=10)
@measure("ndcg_cut_30", label="nDCG@30", tables=("selection",), order=2, k=30)
@measure("ndcg_cut_100", label="nDCG@100", tables=("selection",), order=3, k=100)
def ndcg(judged: Judged, k: int) -> NDArray[np.float64]:
    """Discounted gain of the first `k` places over that of the best possible list; 0 when nothing is relevant.

    `DCG@k = sum over ranks i <= k of gain_i / log2(i + 1)`, with the label itself as gain (linear, not `2^label - 1`).

    Source: trec_eval `ndcg_cut`; Järvelin and Kekäläinen, TOIS 20(4), 2002; ResearchArena, Table 2.
    """
    ideal = _discounted(judged.relevant, k)
    return _discounted(judged.retrieved, k) / np.where(ideal > 0, ideal, 1.0)


def _discounted(gains: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    first = gains[:, :k]
    return first @ (1 / np.log2(np.arange(2, first.shape[1] + 2)))
