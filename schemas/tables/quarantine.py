"""Lines of release files that could not be used, each with the reason: nothing vanishes silently."""

import pyarrow as pa

from schemas.table import Column, Table, declare

QUARANTINE = declare(
    Table(
        "quarantine",
        "One line of a release file that was not kept.",
        (
            Column("file", pa.string(), "Name of the file inside its dataset's folder"),
            Column("line", pa.int64(), "Number of the line, from 1"),
            Column("byte_offset", pa.int64(), "Where the line starts in the decompressed file", unit="bytes"),
            Column(
                "reason",
                pa.string(),
                "One of the short words that the reader and the merge count by",
            ),
            Column("excerpt", pa.string(), "The line's first 200 characters, undecodable bytes replaced"),
        ),
        key=("file", "line"),
        order=("file", "line"),
    )
)
