"""The project's fusion of lexical and dense retrieval over an edition."""

from tasks.search.edition_engine import EditionEngine
from tasks.search.engine import EngineKit, engine


@engine("hybrid", "BM25 and dense retrieval over the edition, fused.", parts=("bm25", "embeddings"))
def hybrid(kit: EngineKit) -> EditionEngine:
    """Opens the engine; it searches all documents: surveys and papers of any date."""
    return EditionEngine(kit.open_shelf("hybrid"))
