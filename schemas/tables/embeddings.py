"""Embeddings of documents. The vector's width depends on the encoder, so the table is made for a width."""

import pyarrow as pa

from schemas.table import Column, Table


def embeddings_table(dimensions: int) -> Table:
    """The table for an encoder of `dimensions` components.

    Args:
        dimensions: Length of a vector, > 0.
    """
    return Table(
        "embeddings",
        "The embedding of one document.",
        (
            Column("corpus_id", pa.int64(), "The document"),
            Column("text_digest", pa.binary(16), "First 16 bytes of the sha256 of the encoded text (UTF-8)"),
            Column("vector", pa.list_(pa.float16(), dimensions), "Row-normalised: Euclidean norm 1 within float16"),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
