"""Texts and embeddings of the papers that trees are made of, read once for many topics."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.index.encoder import unit_rows
from tasks.index.vectors import vector_rows
from tasks.organization.builder import References
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_table


class ReferenceLibrary:
    """Holds titles, abstracts and vectors of a set of documents in memory.

    Args:
        documents: Dataset of stage `documents`.
        embeddings: Dataset of stage `embeddings`; None for builders that need no vectors.
        ids: Which documents to read; those that the datasets lack are skipped.
    """

    def __init__(self, documents: Dataset, embeddings: Dataset | None, ids: Iterable[int]) -> None:
        wanted = np.unique(np.fromiter(ids, np.int64))
        texts = _read(documents, wanted, ["corpus_id", "title", "abstract"])
        self._texts = {i: (title or "", abstract or "") for i, title, abstract in zip(*_lists(texts), strict=True)}
        self._vectors: NDArray[np.float32] | None = None
        self._places: dict[int, int] = {}
        if embeddings is not None:
            rows = _read(embeddings, wanted, ["corpus_id", "vector"])
            self._vectors = unit_rows(vector_rows(rows["vector"]).astype(np.float32))
            self._places = {i: place for place, i in enumerate(rows["corpus_id"].to_pylist())}

    def references(self, ids: Sequence[int]) -> References:
        """Returns those of the papers that are known (and embedded, if vectors are read), in the order of `ids`."""
        vectors = self._vectors
        known = [i for i in dict.fromkeys(ids) if i in self._texts and (vectors is None or i in self._places)]
        titles, abstracts = zip(*(self._texts[i] for i in known), strict=True) if known else ((), ())
        places = [self._places[i] for i in known if vectors is not None]
        return References(
            ids=tuple(known),
            titles=titles,
            abstracts=abstracts,
            vectors=np.zeros((len(known), 0), np.float32) if vectors is None else vectors[places],
        )


def _read(dataset: Dataset, wanted: NDArray[np.int64], columns: list[str]) -> pa.Table:
    """Returns the rows of the wanted papers; files are read one after the other."""
    rule = pc.field("corpus_id").isin(pa.array(wanted))
    return pa.concat_tables(read_table(path, columns=columns, filters=rule) for path in dataset.files())


def _lists(table: pa.Table) -> list[list[object]]:
    return [column.to_pylist() for column in table.columns]
