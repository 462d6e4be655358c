"""The figures that the ResearchArena paper printed, for tables beside ours."""

from collections.abc import Mapping
from typing import NamedTuple


class PublishedRun(NamedTuple):
    """One row of Tables 1 and 2 for one retriever; `dense` is BGE in the paper."""

    baseline: str
    retriever: str
    means: Mapping[str, float]


_MEASURES = ("recall_10", "recall_100", "P_10", "P_100", "ndcg_cut_10", "ndcg_cut_30", "ndcg_cut_100", "recip_rank")

_RUNS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("title", "bm25", (0.0424, 0.1338, 0.0669, 0.0286, 0.0711, 0.0775, 0.0941, 0.1903)),
    ("title", "dense", (0.1012, 0.2697, 0.1541, 0.0586, 0.1678, 0.1754, 0.2019, 0.3816)),
    ("zero_shot", "bm25", (0.0382, 0.1253, 0.0602, 0.0256, 0.0634, 0.0692, 0.0856, 0.1743)),
    ("zero_shot", "dense", (0.0832, 0.2287, 0.1232, 0.0464, 0.1346, 0.1417, 0.1657, 0.3246)),
    ("decomposer", "bm25", (0.0434, 0.1431, 0.0717, 0.0312, 0.0735, 0.0803, 0.0986, 0.1959)),
    ("decomposer", "dense", (0.0879, 0.2554, 0.1304, 0.0536, 0.1445, 0.1554, 0.1838, 0.3510)),
    ("self_rag", "bm25", (0.0380, 0.1210, 0.0595, 0.0256, 0.0627, 0.0679, 0.0837, 0.1705)),
    ("self_rag", "dense", (0.0815, 0.2260, 0.1215, 0.0461, 0.1341, 0.1415, 0.1646, 0.3233)),
    ("storm", "bm25", (0.0281, 0.0693, 0.0446, 0.0130, 0.0445, 0.0507, 0.0524, 0.1271)),
    ("storm", "dense", (0.0979, 0.1441, 0.1041, 0.0208, 0.1275, 0.1322, 0.1267, 0.3206)),
)

PUBLISHED = tuple(
    PublishedRun(baseline, retriever, dict(zip(_MEASURES, means, strict=True))) for baseline, retriever, means in _RUNS
)


class PublishedTrees(NamedTuple):
    """One row of Table 3; `references` is `oracle`, or who found them."""

    builder: str
    references: str
    soft_recall: float
    entity_recall: float
    distance: float


PUBLISHED_TREES = (
    PublishedTrees("clustering", "oracle", 0.6074, 0.2104, 45.69),
    PublishedTrees("storm", "oracle", 0.7325, 0.3098, 60.04),
    PublishedTrees("few_shot", "none", 0.8408, 0.2446, 49.83),
    PublishedTrees("storm", "bm25", 0.7940, 0.2938, 66.65),
    PublishedTrees("storm", "dense", 0.7842, 0.2693, 65.93),
)
