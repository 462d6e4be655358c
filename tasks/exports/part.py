"""The part of an edition that an export holds: all topics, the public ones, or the private ones without judgments."""

import hashlib
from typing import Literal

from pydantic import Field

from schemas.settings import Settings


class Part(Settings):
    """Which topics are written, and whether texts are.

    Whether a topic is private depends on its name and the seed alone, so it stays so from edition to edition.
    """

    split: Literal["all", "public", "private"] = Field(
        default="all",
        description="Topics to write: all, those of the public part, or those of the private part, whose judgments and "
        "runs stay here.",
    )
    private_share: float = Field(default=0.5, gt=0, lt=1, description="Share of the topics that are private, about.")
    split_seed: int = Field(default=42, description="Seed of the draw of the private topics.")
    texts: bool = Field(
        default=False,
        description="Also write titles, abstracts, dates and mind-maps; by default only ids of papers, whose texts are "
        "under Semantic Scholar's terms.",
    )

    @property
    def labelled(self) -> bool:
        """Whether judgments belong to the part."""
        return self.split != "private"

    def holds(self, topic: object) -> bool:
        """Returns whether a topic (corpus_id of a survey, or UUID of a question) belongs to the part."""
        if self.split == "all":
            return True
        draw = int.from_bytes(hashlib.sha256(f"{self.split_seed}:{topic}".encode()).digest()[:6]) / 2**48
        return (draw < self.private_share) == (self.split == "private")
