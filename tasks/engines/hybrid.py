"""The project's fusion of lexical and dense retrieval over an edition."""

from tasks.engines.edition import EditionEngine
from tasks.engines.engine import EngineKit, engine


@engine("hybrid", "BM25 and dense retrieval over the edition, fused.", parts=("bm25", "embeddings"))
def hybrid(kit: EngineKit) -> EditionEngine:
    """Searches everything: surveys and papers of any date."""
    return EditionEngine(kit.open_shelf("hybrid"))
