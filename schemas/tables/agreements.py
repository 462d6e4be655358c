"""How far judgments of the same papers agree."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class AgreementRow(NamedTuple):
    """Two sources of judgments on the papers that both judged."""

    kind: Annotated[str, Column(pa.string(), "`repeat` (one judge, two attempts), `judges`, `human`")]
    first: Annotated[str, Column(pa.string(), "A judge's name, with `#<attempt>` where there are several attempts")]
    second: Annotated[str, Column(pa.string(), "Another judge's or attempt's name, or `human`")]
    papers: Annotated[int, Column(pa.int32(), "Papers with a score from both")]
    equal: Annotated[float, Column(pa.float64(), "Share of papers with equal scores")]
    close: Annotated[float, Column(pa.float64(), "Share of papers whose scores differ by 1 at most")]
    difference: Annotated[float, Column(pa.float64(), "Mean of first less second, in levels of 0 to 5")]
    kappa: Annotated[float | None, Column(pa.float64(), "Cohen's, quadratic weights; null: undefined")]
    alpha: Annotated[float | None, Column(pa.float64(), "Krippendorff's, interval metric; null: undefined")]


AGREEMENTS = declare(Table("agreements", AgreementRow, key=("kind", "first", "second")))


class ConfidenceRow(NamedTuple):
    """Papers that a judge judged with one confidence, and how far others disagree."""

    judge: Annotated[str, Column(pa.string(), "Name of the judge in results")]
    confidence: Annotated[int, Column(pa.int8(), "0 to 10")]
    against: Annotated[str, Column(pa.string(), "`repeat`, `judges` or `human`")]
    pairs: Annotated[int, Column(pa.int32(), "Pairs of scores of the same paper")]
    disagreement: Annotated[float, Column(pa.float64(), "Mean absolute difference, in levels of 0 to 5")]


CONFIDENCES = declare(Table("confidences", ConfidenceRow, key=("judge", "confidence", "against")))
