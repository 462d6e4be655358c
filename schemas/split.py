"""Which topics of an edition are public, and which are private."""

import hashlib

from pydantic import Field

from schemas.settings import Settings


class Split(Settings):
    """How topics are divided into a public part and a private one, whose judgments and scores stay with the store.

    Whether a topic is private depends on its name and the seed alone, so it stays so from edition to edition.
    """

    private_share: float = Field(default=0.5, gt=0, lt=1, description="Share of the topics that are private, about.")
    split_seed: int = Field(default=42, description="Seed of the draw of the private topics.")

    def is_private(self, topic: object) -> bool:
        """Returns whether a topic (corpus_id of a survey, or UUID of a question) is private."""
        draw = int.from_bytes(hashlib.sha256(f"{self.split_seed}:{topic}".encode()).digest()[:6]) / 2**48
        return draw < self.private_share
