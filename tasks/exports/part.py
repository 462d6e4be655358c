"""The part of an edition that an export holds: all topics, the public ones, or the private ones without judgments."""

from typing import Literal

from pydantic import Field

from schemas.split import Split


class Part(Split):
    """Which topics are written, and whether texts are."""

    split: Literal["all", "public", "private"] = Field(
        default="all",
        description="Topics to write: all, those of the public part, or those of the private part, whose judgments and "
        "runs stay here.",
    )
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
        return self.split == "all" or self.is_private(topic) == (self.split == "private")
