"""The project's dense retriever over an edition."""

from tasks.engines.edition import EditionEngine
from tasks.engines.engine import EngineKit, engine


@engine("dense", "Nearest embeddings of the edition's documents.", parts=("embeddings",))
def dense(kit: EngineKit) -> EditionEngine:
    """Searches everything: surveys and papers of any date."""
    return EditionEngine(kit.open_shelf("dense"))
