"""The project's lexical retriever over an edition."""

from tasks.engines.edition import EditionEngine
from tasks.engines.engine import EngineKit, engine


@engine("bm25", "BM25 over an index of the edition.", parts=("bm25",))
def bm25(kit: EngineKit) -> EditionEngine:
    """Searches everything: surveys and papers of any date."""
    return EditionEngine(kit.open_shelf("bm25"))
