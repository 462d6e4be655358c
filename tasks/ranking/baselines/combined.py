"""Combined: the subject in every index, expanded by terms and vectors, and fused by score."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.combination import CombinationSettings, rank_by_combination

SETTINGS = CombinationSettings()


@baseline(
    "combined",
    "Expands the subject in every index by terms and vectors, and fuses by score.",
    extends="feedback",
)
def combined(topic: Topic, kit: Kit) -> Ranking:
    """Does what `feedback` does over all indexes of the desk, for a query that leaves out survey words.

    Smoothing, groups and acronyms (those that several of the first hits define; Schwartz and Hearst) are off: nested
    cross-validation over 40 real topics chose so (`docs/explanation/baselines.md`).

    Source: as `feedback`.
    """
    return rank_by_combination(topic, kit, SETTINGS)
