"""What the engines over an edition share: a retriever's hits become found papers."""

from schemas.search import Found
from tasks.search.engine import Shelf

PAPER = "https://api.semanticscholar.org/"


class EditionEngine:
    """Searches all documents of an edition, also surveys and later papers: it answers a person, not a topic."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def search(self, query: str, n: int) -> list[Found]:
        """Returns the retriever's first `n` documents."""
        hits = self._shelf.retriever.search(query, n).hits
        documents = self._shelf.reader.read([hit.corpus_id for hit in hits])
        return [
            Found(
                title=document.title or "",
                abstract=document.abstract or "",
                id=f"corpusid:{document.corpus_id}",
                url=f"{PAPER}CorpusID:{document.corpus_id}",
                score=hit.score,
            )
            for hit, document in zip(hits, documents, strict=True)
        ]
