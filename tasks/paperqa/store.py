"""The stages that turn AirQA's files into tables: questions without their hidden part, and papers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field, ValidationError

from schemas.errors import BadInput
from schemas.paperqa import AnnotatedExample, PaperId, PaperMetadata
from schemas.paperqa_processed import ProcessedPaper
from schemas.settings import Settings
from schemas.table import AnyTable
from schemas.tables.paperqa_papers import (
    PAPERQA_EQUATIONS,
    PAPERQA_FIGURES,
    PAPERQA_PAPERS,
    PAPERQA_PROBLEMS,
    PAPERQA_REFERENCES,
    PAPERQA_SECTIONS,
    PAPERQA_TABLES,
    PaperqaEquationRow,
    PaperqaFigureRow,
    PaperqaPaperRow,
    PaperqaProblemRow,
    PaperqaReferenceRow,
    PaperqaSectionRow,
    PaperqaTableRow,
)
from schemas.tables.paperqa_questions import (
    PAPERQA_ANNOTATIONS,
    PAPERQA_QUESTIONS,
    PaperqaAnnotationRow,
    PaperqaQuestionRow,
)
from tasks.paperqa.files import paths
from tasks.paperqa.questions import load_questions, read_metadata_file
from tasks.store.parquet import write_rows
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

Row = tuple[Any, ...]
"""A row object of a table of the store."""

SHARD_PAPERS = 500
"""Papers per shard; a conference has one or more shards."""

PARTS: Mapping[str, AnyTable] = {
    "part": PAPERQA_PAPERS,
    "sections": PAPERQA_SECTIONS,
    "tables": PAPERQA_TABLES,
    "figures": PAPERQA_FIGURES,
    "equations": PAPERQA_EQUATIONS,
    "references": PAPERQA_REFERENCES,
    "problems": PAPERQA_PROBLEMS,
}
"""Tables of the store by the prefix of their files."""


class QuestionSettings(Settings):
    """How questions are read."""

    repair: bool = Field(default=False, description="Mend known slips of the published file: tags and gold values.")


class StoreSettings(Settings):
    """The stage has no settings."""


@stage("paperqa_questions", version=1, settings=QuestionSettings, after="tree_scores")
def paperqa_questions(work: Workspace[QuestionSettings]) -> None:
    """Writes PAPERQA_QUESTIONS and, in a file of its own, PAPERQA_ANNOTATIONS.

    Input: `questions`, release files of one file.
    """
    for shard in work.pending(["00000"]):
        with shard:
            (path,) = paths(work.release("questions"))
            examples = load_questions(path, work.settings.repair)
            _write(shard, "part", PAPERQA_QUESTIONS, map(_question, examples))
            _write(shard, "annotations", PAPERQA_ANNOTATIONS, map(_annotation, examples))
            shard.counts.read = shard.counts.kept = len(examples)


def _question(example: AnnotatedExample) -> PaperqaQuestionRow:
    seen = example.visible()
    return PaperqaQuestionRow(
        seen.uuid, seen.question, seen.answer_format, list(seen.anchor_pdf), list(seen.conference)
    )


def _annotation(example: AnnotatedExample) -> PaperqaAnnotationRow:
    return PaperqaAnnotationRow(
        uuid=example.uuid,
        tags=list(example.tags),
        reference_pdf=list(example.reference_pdf),
        evaluator=orjson.dumps(example.evaluator.model_dump()).decode(),
        reasoning_steps=list(example.reasoning_steps),
        annotator=example.annotator,
    )


@stage("paperqa_store", version=1, settings=StoreSettings, after="paperqa_questions")
def paperqa_store(work: Workspace[StoreSettings]) -> None:
    """Writes PAPERQA_PAPERS and the tables of their contents; a shard has up to 500 papers of a conference.

    Inputs: `metadata` and, if there is any, `processed`. Processed data that does not match its paper is not used; the
    side table `problems` says why, and the paper is kept without it.
    """
    processed = {path.stem: path for path in paths(work.release("processed"))} if "processed" in work.inputs else {}
    papers, problems = _read_metadata(list(paths(work.release("metadata"))))
    problems += [
        PaperqaProblemRow(path.name, "no_metadata", f"no metadata of paper {uuid}")
        for uuid, path in processed.items()
        if uuid not in papers
    ]
    groups = _groups(papers)
    for shard in work.pending([*groups, "files"]):
        with shard:
            if shard.name == "files":
                _write(shard, "problems", PAPERQA_PROBLEMS, problems)
                for problem in problems:
                    shard.counts.dropped[problem.reason] = shard.counts.dropped.get(problem.reason, 0) + 1
            else:
                _write_papers(shard, groups[shard.name], processed)


def _read_metadata(files: list[Path]) -> tuple[dict[PaperId, PaperMetadata], list[PaperqaProblemRow]]:
    papers: dict[PaperId, PaperMetadata] = {}
    problems: list[PaperqaProblemRow] = []
    for path in files:
        try:
            uuid, paper = read_metadata_file(path)
            papers[uuid] = paper
        except BadInput as error:
            problems.append(PaperqaProblemRow(path.name, "bad_metadata", str(error)))
    if not papers:
        raise BadInput(f"no usable metadata in {len(files)} files; the first: {problems[0].message}")
    return papers, problems


def _groups(papers: Mapping[PaperId, PaperMetadata]) -> dict[str, list[PaperMetadata]]:
    """Groups papers by shard name, ascending by uuid within a conference."""
    venues: dict[str, list[PaperMetadata]] = {}
    for paper in sorted(papers.values(), key=lambda paper: (paper.venue, paper.uuid)):
        venues.setdefault(paper.venue, []).append(paper)
    chunks = (
        members[i : i + SHARD_PAPERS] for members in venues.values() for i in range(0, len(members), SHARD_PAPERS)
    )
    return {f"{number:05d}": chunk for number, chunk in enumerate(chunks)}


def _write_papers(shard: Shard, papers: list[PaperMetadata], processed: Mapping[str, Path]) -> None:
    rows: dict[str, list[Row]] = {prefix: [] for prefix in PARTS}
    with_processed = 0
    for paper in papers:
        found = read_processed(processed[paper.uuid], paper) if paper.uuid in processed else None
        if isinstance(found, PaperqaProblemRow):
            rows["problems"].append(found)
            shard.counts.dropped[found.reason] = shard.counts.dropped.get(found.reason, 0) + 1
            found = None
        rows["part"].append(_paper_row(paper, found))
        if found is not None:
            with_processed += 1
            for prefix, items in _item_rows(paper.uuid, found).items():
                rows[prefix] += items
    for prefix, table in PARTS.items():
        _write(shard, prefix, table, rows[prefix])
    shard.counts.read = shard.counts.kept = len(papers)
    shard.counts.notes["without_processed"] = len(papers) - with_processed


def read_processed(path: Path, paper: PaperMetadata) -> ProcessedPaper | PaperqaProblemRow:
    """Reads a paper's processed data; returns a problem if it cannot belong to the paper."""
    try:
        found = ProcessedPaper.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        return PaperqaProblemRow(path.name, "bad_processed", " ".join(str(error).split())[:500])
    named = Path(found.pdf_path).stem if found.pdf_path else paper.uuid
    if named != paper.uuid:
        return PaperqaProblemRow(path.name, "other_paper", f"made from the PDF {named[:100]}")
    if 0 < paper.num_pages < found.last_page:
        return PaperqaProblemRow(
            path.name, "more_pages", f"speaks of page {found.last_page}, the paper has {paper.num_pages}"
        )
    return found


def _paper_row(paper: PaperMetadata, processed: ProcessedPaper | None) -> PaperqaPaperRow:
    return PaperqaPaperRow(
        paper_id=paper.uuid,
        title=paper.title,
        abstract=paper.abstract,
        authors=list(paper.authors),
        conference=paper.venue,
        conference_full=paper.conference_full,
        year=paper.year,
        volume=paper.volume,
        num_pages=paper.num_pages,
        tldr=paper.tldr,
        keywords=list(paper.tags),
        bibtex=paper.bibtex,
        pdf_url=paper.pdf_url,
        extraction=processed.extraction if processed else None,
    )


def _item_rows(paper: PaperId, found: ProcessedPaper) -> dict[str, list[Row]]:
    """Returns the rows of a paper's contents by file prefix, in the order of the paper."""
    return {
        "sections": [
            PaperqaSectionRow(paper, i, s.title, s.level, s.page or min(s.pages, default=None), s.text)
            for i, s in enumerate(found.sections)
        ],
        "tables": [
            PaperqaTableRow(paper, i, t.caption, t.html, t.page, _box(t.box)) for i, t in enumerate(found.tables)
        ],
        "figures": [PaperqaFigureRow(paper, i, f.caption, f.page, _box(f.box)) for i, f in enumerate(found.figures)],
        "equations": [PaperqaEquationRow(paper, i, e.text, e.page) for i, e in enumerate(found.equations)],
        "references": [PaperqaReferenceRow(paper, i, r.text) for i, r in enumerate(found.references)],
    }


def _box(box: Sequence[float] | None) -> list[float] | None:
    return None if box is None else list(box)


def _write(shard: Shard, prefix: str, table: AnyTable, rows: Iterable[Row]) -> None:
    write_rows(shard.file(f"{prefix}-{shard.name}.parquet"), table, rows)
