"""How far judgments of the same papers agree."""

import pyarrow as pa

from schemas.table import Column, Table, declare

AGREEMENTS = declare(
    Table(
        "agreements",
        "Two sources of judgments on the papers that both judged.",
        (
            Column("kind", pa.string(), "`repeat` (one judge, two attempts), `judges`, `human`"),
            Column("first", pa.string(), "A judge's name, with `#<attempt>` where there are several attempts"),
            Column("second", pa.string(), "Another judge's or attempt's name, or `human`"),
            Column("papers", pa.int32(), "Papers with a score from both"),
            Column("equal", pa.float64(), "Share of papers with equal scores"),
            Column("close", pa.float64(), "Share of papers whose scores differ by 1 at most"),
            Column("difference", pa.float64(), "Mean of first less second, in levels of 0 to 5"),
            Column("kappa", pa.float64(), "Cohen's, quadratic weights; null: undefined", nullable=True),
            Column("alpha", pa.float64(), "Krippendorff's, interval metric; null: undefined", nullable=True),
        ),
        key=("kind", "first", "second"),
    )
)

CONFIDENCES = declare(
    Table(
        "confidences",
        "Papers that a judge judged with one confidence, and how far others disagree.",
        (
            Column("judge", pa.string(), "Name of the judge in results"),
            Column("confidence", pa.int8(), "0 to 10"),
            Column("against", pa.string(), "`repeat`, `judges` or `human`"),
            Column("pairs", pa.int32(), "Pairs of scores of the same paper"),
            Column("disagreement", pa.float64(), "Mean absolute difference, in levels of 0 to 5"),
        ),
        key=("judge", "confidence", "against"),
    )
)
