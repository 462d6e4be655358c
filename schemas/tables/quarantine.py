"""Lines of release files that could not be used, each with the reason: nothing vanishes silently."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class QuarantinedLineRow(NamedTuple):
    """One line of a release file that was not kept."""

    file: Annotated[str, Column(pa.string(), "Name of the file inside its dataset's folder")]
    line: Annotated[int, Column(pa.int64(), "Number of the line, from 1")]
    byte_offset: Annotated[int, Column(pa.int64(), "Where the line starts in the decompressed file", unit="bytes")]
    reason: Annotated[str, Column(pa.string(), "One of the short words that the reader and the merge count by")]
    excerpt: Annotated[str, Column(pa.string(), "The line's first 200 characters, undecodable bytes replaced")]


QUARANTINE = declare(Table("quarantine", QuarantinedLineRow, key=("file", "line"), order=("file", "line")))
