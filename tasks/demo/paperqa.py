"""Synthesizes processed data from paper metadata, for tests and for users without the published files."""

import json
import random
from pathlib import Path
from typing import Any

from schemas.paperqa import PaperMetadata
from tasks.paperqa.questions import load_metadata

EXTRACTION = "synthetic"
HEADINGS = ("Introduction", "Related Work", "Method", "Experiments", "Results", "Conclusion")


def synthesise(paper: PaperMetadata, seed: int = 42) -> dict[str, Any]:
    """Returns invented sections, tables, figures, equations and references for a paper, in the published form.

    The paper's abstract and keywords are spread over the sections, so that retrieval has something to find; numbers are
    random. Equal papers and seeds give equal data.
    """
    draw = random.Random(f"{seed} {paper.uuid}")  # noqa: S311
    pages = max(paper.num_pages, 1)
    sentences = [part.strip() for part in paper.abstract.split(". ") if part.strip()] or [paper.title]
    sections: list[dict[str, Any]] = []
    for place, heading in enumerate(HEADINGS):
        page = 1 + place * (pages - 1) // len(HEADINGS)
        said = [*sentences[place :: len(HEADINGS)], f"Our setting has {draw.randint(2, 12)} layers"]
        topic = paper.tags[place % len(paper.tags)] if paper.tags else paper.title
        text = f"{heading} of {paper.title}. " + ". ".join(said) + f". This part is about {topic}."
        sections.append({"title": heading, "text": text, "level": 1, "page_number": page, "page_numbers": [page]})
    cells = [(name, f"{draw.uniform(40, 95):.1f}") for name in ("Baseline", "Ours", "Ours, large")]
    rows = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in cells)
    box = [72.0, 72.0, 300.0, 180.0]
    return {
        "extraction": EXTRACTION,
        "TOC": sections,
        "tables": [
            {
                "table_caption": f"Table 1: Accuracy of {paper.title}",
                "table_html": f"<html><body><table>{rows}</table></body></html>",
                "table_bbox": box,
                "page_number": draw.randint(1, pages),
            }
        ],
        "figures": [
            {"figure_caption": f"Figure 1: Overview of {paper.title}", "figure_bbox": box, "page_number": 1},
        ],
        "equations": [
            {"equation_text": f"$$ L = {draw.randint(2, 9)} x^2 + {draw.randint(1, 9)} $$", "page_number": pages},
        ],
        "references": [
            {"reference_text": f"[{n}] A. Author. Work {n} on {paper.title}. {paper.year - n}."} for n in (1, 2, 3)
        ],
    }


def write_synthetic(metadata: Path, to: Path, seed: int = 42) -> int:
    """Writes `<uuid>.json` for every paper of a metadata folder and returns the number of files.

    Raises:
        BadInput: A metadata file cannot be read, or there is none.
    """
    to.mkdir(parents=True, exist_ok=True)
    papers = load_metadata(metadata)
    for uuid, paper in papers.items():
        (to / f"{uuid}.json").write_text(json.dumps(synthesise(paper, seed), ensure_ascii=False))
    return len(papers)
