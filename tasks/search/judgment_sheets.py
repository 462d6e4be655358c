"""Sheets on which people judge the same papers as a model, without seeing its scores."""

import csv
import random
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from schemas.errors import BadInput
from schemas.search import LEVELS
from schemas.spreadsheets import read_cell, to_csv
from tasks.search.queries import read_queries
from tasks.store.dataset import Dataset

COLUMNS = ("query_key", "doc_key", "query", "title", "abstract", "label", "note")
"""People fill in `label` with 0 to 5, and `note` as they like."""


class JudgedPaper(NamedTuple):
    """A paper that is judged for a query."""

    query_key: str
    doc_key: str


def write_judgment_sheet(judgments: Dataset, queries: Dataset, path: Path, *, papers: int = 100, seed: int = 42) -> int:
    """Writes a CSV sheet with papers drawn evenly from all levels that the judge gave; it does not show the levels.

    Args:
        judgments: Dataset of stage `judge`.
        queries: Dataset of stage `search_queries`.
        path: File to write.
        papers: Number of papers, >= 1; fewer if fewer have a judgment.
        seed: Seed of the sample and of its order.

    Returns:
        Number of papers written.
    """
    texts = {query.query_key: query.text for query in read_queries(queries)}
    columns = ["query_key", "doc_key", "title", "abstract", "attempt", "score"]
    rows = judgments.table(columns=columns).sort_by([("query_key", "ascending"), ("doc_key", "ascending")]).to_pylist()
    drawing = random.Random(seed)  # noqa: S311
    levels = [[row for row in rows if row["attempt"] == 0 and row["score"] == level] for level in range(LEVELS)]
    for of_level in levels:
        drawing.shuffle(of_level)
    drawn = [row for turn in zip_longest(*levels) for row in turn if row][:papers]
    drawing.shuffle(drawn)
    keys = ("query_key", "doc_key")
    rows = [
        (*(row[key] for key in keys), texts[row["query_key"]], row["title"], row["abstract"], "", "") for row in drawn
    ]
    path.write_text(to_csv([COLUMNS, *rows]), "utf-8")
    return len(drawn)


def read_labels(path: Path) -> dict[JudgedPaper, int]:
    """Reads the labels of a sheet; rows without a label are skipped.

    Raises:
        BadInput: It cannot be read, lacks a column, or has a label that is no whole number from 0 to 5, or two labels
            for one paper.
    """
    labels: dict[JudgedPaper, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            sheet = csv.DictReader(file)
            if missing := [name for name in ("query_key", "doc_key", "label") if name not in (sheet.fieldnames or ())]:
                raise BadInput(f"{path}: no column {', '.join(missing)}; fill in a sheet that this project wrote")
            for row in sheet:
                if not (told := (row["label"] or "").strip()):
                    continue
                paper = JudgedPaper(*(read_cell((row[key] or "").strip()) for key in ("query_key", "doc_key")))
                if told not in map(str, range(LEVELS)):
                    raise BadInput(f"{path}, line {sheet.line_num}: label {told!r}; write a whole number from 0 to 5")
                if labels.setdefault(paper, int(told)) != int(told):
                    raise BadInput(f"{path}, line {sheet.line_num}: {paper.doc_key} has two labels for one query")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a readable sheet ({error}); save it as CSV in UTF-8") from error
    return labels
