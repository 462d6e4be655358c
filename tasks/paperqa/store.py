"""The stages that turn AirQA's files into tables: questions without their hidden part, and papers."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
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
)
from schemas.tables.paperqa_questions import PAPERQA_ANNOTATIONS, PAPERQA_QUESTIONS
from tasks.paperqa.files import paths
from tasks.paperqa.questions import load_questions, read_metadata_file
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

Row = dict[str, Any]

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


class Problem(NamedTuple):
    """The reason why a file is not used."""

    file: str
    reason: str
    message: str


@stage("paperqa_questions", version=1, settings=QuestionSettings, after="tree_scores")
def paperqa_questions(work: Workspace[QuestionSettings]) -> None:
    """Writes PAPERQA_QUESTIONS and, in a file of its own, PAPERQA_ANNOTATIONS.

    Input: `questions`, release files of one file.
    """
    for shard in work.pending(["00000"]):
        with shard:
            (path,) = paths(work.release("questions"))
            examples = load_questions(path, work.settings.repair)
            _write(shard, "part", PAPERQA_QUESTIONS, [example.visible().model_dump() for example in examples])
            _write(shard, "annotations", PAPERQA_ANNOTATIONS, map(_annotation, examples))
            shard.counts.read = shard.counts.kept = len(examples)


def _annotation(example: AnnotatedExample) -> Row:
    return {
        "uuid": example.uuid,
        "tags": example.tags,
        "reference_pdf": example.reference_pdf,
        "evaluator": orjson.dumps(example.evaluator.model_dump()).decode(),
        "reasoning_steps": example.reasoning_steps,
        "annotator": example.annotator,
    }


@stage("paperqa_store", version=1, settings=StoreSettings, after="paperqa_questions")
def paperqa_store(work: Workspace[StoreSettings]) -> None:
    """Writes PAPERQA_PAPERS and the tables of their contents; a shard has up to 500 papers of a conference.

    Inputs: `metadata` and, if there is any, `processed`. Processed data that does not match its paper is not used; the
    side table `problems` says why, and the paper is kept without it.
    """
    processed = {path.stem: path for path in paths(work.release("processed"))} if "processed" in work.inputs else {}
    papers, problems = _read_metadata(list(paths(work.release("metadata"))))
    problems += [
        Problem(path.name, "no_metadata", f"no metadata of paper {uuid}")
        for uuid, path in processed.items()
        if uuid not in papers
    ]
    groups = _groups(papers)
    for shard in work.pending([*groups, "files"]):
        with shard:
            if shard.name == "files":
                _write(shard, "problems", PAPERQA_PROBLEMS, [problem._asdict() for problem in problems])
                for problem in problems:
                    shard.counts.dropped[problem.reason] = shard.counts.dropped.get(problem.reason, 0) + 1
            else:
                _write_papers(shard, groups[shard.name], processed)


def _read_metadata(files: list[Path]) -> tuple[dict[PaperId, PaperMetadata], list[Problem]]:
    papers: dict[PaperId, PaperMetadata] = {}
    problems: list[Problem] = []
    for path in files:
        try:
            uuid, paper = read_metadata_file(path)
            papers[uuid] = paper
        except BadInput as error:
            problems.append(Problem(path.name, "bad_metadata", str(error)))
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
    for paper in papers:
        found = read_processed(processed[paper.uuid], paper) if paper.uuid in processed else None
        if isinstance(found, Problem):
            rows["problems"].append(found._asdict())
            shard.counts.dropped[found.reason] = shard.counts.dropped.get(found.reason, 0) + 1
            found = None
        rows["part"].append(_paper_row(paper, found))
        if found is not None:
            for prefix, items in _item_rows(found).items():
                rows[prefix] += [{"paper_id": paper.uuid, "place": i, **item} for i, item in enumerate(items)]
    for prefix, table in PARTS.items():
        _write(shard, prefix, table, rows[prefix])
    shard.counts.read = shard.counts.kept = len(papers)
    shard.counts.notes["without_processed"] = sum(row["extraction"] is None for row in rows["part"])


def read_processed(path: Path, paper: PaperMetadata) -> ProcessedPaper | Problem:
    """Reads a paper's processed data; returns a problem if it cannot belong to the paper."""
    try:
        found = ProcessedPaper.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        return Problem(path.name, "bad_processed", " ".join(str(error).split())[:500])
    named = Path(found.pdf_path).stem if found.pdf_path else paper.uuid
    if named != paper.uuid:
        return Problem(path.name, "other_paper", f"made from the PDF {named[:100]}")
    if 0 < paper.num_pages < found.last_page:
        return Problem(path.name, "more_pages", f"speaks of page {found.last_page}, the paper has {paper.num_pages}")
    return found


def _paper_row(paper: PaperMetadata, processed: ProcessedPaper | None) -> Row:
    kept = (
        "title",
        "abstract",
        "authors",
        "conference_full",
        "year",
        "volume",
        "num_pages",
        "tldr",
        "bibtex",
        "pdf_url",
    )
    return {
        **{name: getattr(paper, name) for name in kept},
        "paper_id": paper.uuid,
        "conference": paper.venue,
        "keywords": paper.tags,
        "extraction": processed.extraction if processed else None,
    }


def _item_rows(found: ProcessedPaper) -> dict[str, Iterator[Row]]:
    """Returns the rows of a paper's contents by file prefix, without paper id and place."""
    return {
        "sections": (
            {"title": s.title, "level": s.level, "page": s.page or min(s.pages, default=None), "text": s.text}
            for s in found.sections
        ),
        "tables": ({"caption": t.caption, "html": t.html, "page": t.page, "bbox": t.box} for t in found.tables),
        "figures": ({"caption": f.caption, "page": f.page, "bbox": f.box} for f in found.figures),
        "equations": ({"text": e.text, "page": e.page} for e in found.equations),
        "references": ({"text": r.text} for r in found.references),
    }


def _write(shard: Shard, prefix: str, table: AnyTable, rows: Iterable[Row]) -> None:
    path = shard.file(f"{prefix}-{shard.name}.parquet")
    write_table(path, table, pa.Table.from_pylist(list(rows), table.arrow))
