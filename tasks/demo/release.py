"""Writes a synthetic release: any number of invented papers in Semantic Scholar's file format, from a seed."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import orjson
from isal.igzip import IGzipFile
from pydantic import Field

from schemas.identifiers import RELEASE_PATTERN, DatasetName
from schemas.settings import Settings
from tasks.demo.figures import write_figures
from tasks.demo.papers import Paper, PaperGenerator
from tasks.demo.release_records import (
    Json,
    broken_lines,
    format_abstract,
    format_citations,
    format_paper,
    format_s2orc,
    format_s2orc_v2,
)


class SyntheticSettings(Settings):
    """Settings of a synthetic release; equal settings give equal bytes."""

    release: str = Field(default="2026-01-06", pattern=RELEASE_PATTERN, description="Name of the release.")
    papers: int = Field(default=2_000, ge=30, description="Number of papers; a larger release begins with these.")
    seed: int = Field(default=42, description="Another seed gives other papers.")
    files: int = Field(default=4, ge=1, le=250, description="Files of each dataset.")
    full_text: Literal["s2orc_v2", "s2orc"] = Field(default="s2orc_v2", description="Format of the full texts.")
    full_text_share: float = Field(default=0.85, ge=0, le=1, description="Share of papers with full text.")
    paragraphs: int = Field(default=2, ge=1, le=1_000, description="Paragraphs of each of the seven sections.")
    surveys: float = Field(default=1, ge=0, le=1, description="Share of the usual 62 surveys among a thousand papers.")
    figures: float = Field(default=0, ge=0, le=1, description="Share of surveys with figures, one of them a mind-map.")
    planted: bool = Field(
        default=False, description="Let papers cite each other by a rule, and write every other one in foreign words."
    )
    broken: bool = Field(default=True, description="Put a few lines that cannot be used into the first files.")


def write_release(folder: Path, settings: SyntheticSettings) -> dict[DatasetName, int]:
    """Writes `<folder>/<release>/<dataset>/part-<n>.jsonl.gz` and returns the number of lines of each dataset.

    Paper n goes to file n modulo `files`. With `broken`, seven lines that are not kept come before the first record
    of each dataset; the last two are outdated versions of that record. Figures are written to
    `<folder>/<release>/figures` in pdffigures2's layout.

    Args:
        folder: Folder of the release mirror; created when absent.
        settings: What to write.
    """
    target = folder / settings.release
    shape = settings.seed, settings.full_text_share, settings.paragraphs, settings.planted, settings.surveys
    generator = PaperGenerator(*shape)
    datasets: tuple[DatasetName, ...] = ("papers", "abstracts", "citations", settings.full_text)
    lines: dict[DatasetName, int] = dict.fromkeys(datasets, 0)
    paths = {name: [target / name / f"part-{n:03d}.jsonl.gz" for n in range(settings.files)] for name in datasets}
    unused = {path for dataset in datasets for path in paths[dataset]}
    with ExitStack() as stack:
        files = {path: stack.enter_context(_create(path)) for path in unused}
        for number in range(settings.papers):
            for dataset, records in _format(generator.paper(number), settings.full_text).items():
                found = [orjson.dumps(record) for record in records]
                if settings.broken and found and not lines[dataset]:
                    found = [*broken_lines(dataset, records[0]), *found]
                lines[dataset] += len(found)
                path = paths[dataset][number % settings.files]
                files[path].writelines(line + b"\n" for line in found)
                unused -= {path} if found else set()
    for path in unused:
        path.unlink()
    if settings.figures:
        write_figures(target / "figures", generator, settings.figures, settings.papers, settings.broken)
    return lines


def _format(paper: Paper, full_text: Literal["s2orc_v2", "s2orc"]) -> dict[DatasetName, list[Json]]:
    write_full_text = format_s2orc_v2 if full_text == "s2orc_v2" else format_s2orc
    return {
        "papers": [format_paper(paper)],
        "abstracts": [format_abstract(paper)],
        "citations": list(format_citations(paper)),
        full_text: [write_full_text(paper)] if paper.sections else [],
    }


@contextmanager
def _create(path: Path) -> Generator[IGzipFile]:
    """Creates a gzip file without name and time in its header, so that equal content gives equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, IGzipFile("", "wb", fileobj=raw, mtime=0) as output:
        yield output
