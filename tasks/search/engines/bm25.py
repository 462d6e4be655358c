"""The project's lexical retriever over an edition."""

from tasks.search.edition_engine import EditionEngine
from tasks.search.engine import EngineKit, engine


@engine("bm25", "BM25 over an index of the edition.", parts=("bm25",))
def bm25(kit: EngineKit) -> EditionEngine:
    """Opens the engine; it searches all documents: surveys and papers of any date."""
    return EditionEngine(kit.open_shelf("bm25"))
