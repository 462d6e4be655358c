"""Reciprocal rank of the first relevant document."""

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.ranking.measure import Judged, measure


@measure("recip_rank", label="MRR", tables=("selection",), order=4)
def reciprocal_rank(judged: Judged) -> NDArray[np.float64]:
    """1 / rank of the first relevant document (any label >= 1) in the whole list; 0 when there is none.

    Source: trec_eval `recip_rank`; its mean over topics is the MRR of ResearchArena, Table 2.
    """
    relevant = judged.retrieved > 0
    if not relevant.shape[1]:
        return np.zeros(len(relevant))
    return relevant.any(axis=1) / (relevant.argmax(axis=1) + 1.0)
