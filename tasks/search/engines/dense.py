"""The project's dense retriever over an edition."""

from tasks.search.edition_engine import EditionEngine
from tasks.search.engine import EngineKit, engine


@engine("dense", "Nearest embeddings of the edition's documents.", parts=("embeddings",))
def dense(kit: EngineKit) -> EditionEngine:
    """Opens the engine; it searches all documents: surveys and papers of any date."""
    return EditionEngine(kit.open_shelf("dense"))
