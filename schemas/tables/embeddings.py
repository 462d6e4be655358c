"""Embeddings of documents. The vector's width depends on the encoder, so the table is made for a width."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import AnyTable, Column, Table


def embeddings_table(dimensions: int) -> AnyTable:
    """The table for an encoder of `dimensions` components.

    Args:
        dimensions: Length of a vector, > 0.
    """

    class EmbeddingRow(NamedTuple):
        """The embedding of one document."""

        corpus_id: Annotated[int, Column(pa.int64(), "The document")]
        text_digest: Annotated[bytes, Column(pa.binary(16), "First 16 bytes of the sha256 of the encoded text (UTF-8)")]
        vector: Annotated[
            list[float], Column(pa.list_(pa.float16(), dimensions), "Row-normalised: Euclidean norm 1 within float16")
        ]

    return Table("embeddings", EmbeddingRow, key=("corpus_id",), order=("corpus_id",))
