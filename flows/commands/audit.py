"""Commands `arena audit`: draw samples for people to check, and score their answers."""

from pathlib import Path

from flows.commands.options import Count, Folder, Whole, open_datasets, open_store, writes_to
from flows.commands.terminal import show_json, show_rows, show_text
from flows.pipeline.walk import remedy
from schemas.errors import UsageError
from schemas.identifiers import EditionName
from tasks.audit.mindmaps import mindmap_sheet
from tasks.audit.score import score_answers
from tasks.audit.sheet import Sheet, read_answers, write_sheet
from tasks.audit.surveys import survey_sheet
from tasks.search.judgment_sheets import write_judgment_sheet
from tasks.store.dataset import Dataset


def surveys(
    *,
    n: Count = 25,
    seed: Whole = 42,
    edition: EditionName | None = None,
    to: Path = Path(),
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Write a sheet on which people say whether the accepted surveys are surveys.

    Args:
        n: How many surveys to draw.
        seed: Seed of the sample.
        edition: Name of the edition; may be left out when there is only one.
        to: Folder for the page and the CSV file.
        json: Print the paths as JSON.
    """
    name, found = open_datasets(open_store(folder), edition)
    _write(survey_sheet(name, _need(found, "surveys", name), _need(found, "papers", name), n, seed), to, json)


def mindmaps(
    *,
    n: Count = 25,
    seed: Whole = 42,
    edition: EditionName | None = None,
    to: Path = Path(),
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Write a sheet on which people compare mind-maps with the figures they were read from.

    Args:
        n: How many mind-maps to draw.
        seed: Seed of the sample.
        edition: Name of the edition; may be left out when there is only one.
        to: Folder for the page and the CSV file.
        json: Print the paths as JSON.
    """
    name, found = open_datasets(open_store(folder), edition)
    _write(mindmap_sheet(name, _need(found, "mindmaps", name), found.get("figures"), n, seed), to, json)


def judgments(
    *,
    n: Count = 100,
    seed: Whole = 42,
    judge: str | None = None,
    edition: EditionName | None = None,
    to: Path = Path("judgments.csv"),
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Write a sheet on which people judge papers that a model has judged, without seeing its scores.

    Pass the filled sheet to `arena judge --labels`.

    Args:
        n: How many papers to draw.
        seed: Seed of the sample.
        judge: The judge, as in the slot `search/<test sets>/judgments/<judge>`; may be left out when there is only one.
        edition: Name of the edition; may be left out when there is only one.
        to: The CSV file to write.
        json: Print its path as JSON.
    """
    name, found = open_datasets(open_store(folder), edition)
    slots = [slot for slot in found if "/judgments/" in slot and (judge is None or slot.endswith(f"/{judge}"))]
    if len(slots) != 1:
        there = ", ".join(slot for slot in found if "/judgments/" in slot) or "(none; run: arena judge)"
        raise UsageError(f"edition {name}: which judge? add --judge with the end of one of: {there}")
    queries = found[f"{slots[0].partition('/judgments/')[0]}/queries"]
    with writes_to(to):
        written = write_judgment_sheet(found[slots[0]], queries, to, papers=n, seed=seed)
    if json:
        show_json({"csv": str(to), "papers": written})
    else:
        show_text(f"{to}: {written} papers; fill it in, then run: arena judge QUERIES --labels {to}")


def score(file: Path, /, *, json: bool = False) -> None:
    """Score a filled sheet: the share of yes with 95 % Wilson intervals, next to the paper's 92, 80 and 60 %.

    Args:
        file: The CSV file, saved from the page or filled in by hand with yes, no or unsure.
        json: Print as JSON.
    """
    answers = read_answers(file)
    scored = score_answers(answers)
    if json:
        found = [
            {**one._asdict(), "ours": one.ours._asdict(), "paper": one.paper._asdict() if one.paper else None}
            for one in scored
        ]
        show_json({"sheet": answers.sheet, "questions": found})
        return
    rows = [
        {
            "question": one.question,
            "yes": one.ours.yes,
            "of": one.ours.judged,
            "share": one.ours.share,
            "low": one.ours.low,
            "high": one.ours.high,
            "unsure": one.unsure,
            "unanswered": one.unanswered,
            "paper": one.paper.share if one.paper else None,
            "paper low": one.paper.low if one.paper else None,
            "paper high": one.paper.high if one.paper else None,
        }
        for one in scored
    ]
    show_rows(rows, f"{answers.sheet}: share of yes with its 95 % Wilson interval", decimals=2)


def _need(found: dict[str, Dataset], slot: str, edition: str) -> Dataset:
    if slot not in found:
        raise UsageError(f"edition {edition} has no {slot}; {remedy(slot)}")
    return found[slot]


def _write(sheet: Sheet, to: Path, json: bool) -> None:
    with writes_to(to):
        page, table = write_sheet(sheet, to)
    if json:
        show_json({"page": str(page), "csv": str(table), "items": [item.item for item in sheet.items]})
    else:
        show_text(f"{len(sheet.items)} items; answer in {page} or fill in {table}, then run: arena audit score {table}")
