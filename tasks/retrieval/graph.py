"""The citation graph of the documents, opened for lookups."""

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from tasks.corpus.edges import ENDS, IDS, Direction, offsets_file, rows_file
from tasks.retrieval.retriever import Catalogue
from tasks.store.dataset import Dataset


class CitationGraph:
    """Who cites whom among the documents. It is memory-mapped: opening it reads the documents' ids alone.

    Args:
        edges: Dataset of stage `edges`.
        catalogue: The documents.

    Raises:
        BadInput: The edges are those of other documents.
    """

    def __init__(self, edges: Dataset, catalogue: Catalogue) -> None:
        ids = np.load(edges.path(IDS))
        if not np.array_equal(ids, catalogue.ids):
            raise BadInput(
                f"edges {edges.ref.key}: made for {len(ids)} documents, and the corpus has {len(catalogue.ids)} others"
                "; run: arena rerun edges"
            )
        self._offsets = {name: _map(edges, offsets_file(name)) for name in ENDS}
        self._rows = {name: _map(edges, rows_file(name)) for name in ENDS}

    def neighbours(self, row: int, direction: Direction) -> NDArray[np.intp]:
        """Returns the catalogue rows of the papers that a paper cites or that cite it, ascending.

        Args:
            row: The paper's row in the catalogue.
            direction: `references`: papers that it cites; `citations`: papers that cite it.
        """
        start, end = self._offsets[direction][row : row + 2]
        return self._rows[direction][start:end].astype(np.intp)


def _map(edges: Dataset, name: str) -> NDArray[np.int64]:
    return np.load(edges.path(name), mmap_mode="r")
