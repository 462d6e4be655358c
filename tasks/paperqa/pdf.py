"""Renders pages of PDFs, and extracts processed data from PDFs for users who have nothing else."""

import io
import json
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from schemas.errors import BadInput, MissingDependency
from schemas.llm import Image
from tasks.llm.images import read_image

EXTRACTION = "pypdfium2"
DPI = 110
MOST_POINTS = 3000
"""Longest side of a rendered page, in points, because a hostile PDF may claim any size."""

_lock = threading.Lock()


def load_pdfium() -> Any:
    """Returns the module `pypdfium2`.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        return import_module("pypdfium2")
    except ImportError as error:
        raise MissingDependency("reading PDFs needs pypdfium2: pip install 'research-arena[pdf]'") from error


def render_page(path: Path, page: int, box: Sequence[float] = ()) -> Image:
    """Renders a page, or a part of it, as a picture.

    Args:
        path: The PDF.
        page: 1-based.
        box: Empty for the whole page, else x, y, width, height in points from the upper left corner.

    Raises:
        BadInput: The PDF cannot be read, has no such page, or the box is outside the page.
    """
    pdfium = load_pdfium()
    with _lock:
        try:
            with pdfium.PdfDocument(path) as document:
                if not 1 <= page <= len(document):
                    raise BadInput(f"there is no page {page}: the paper has {len(document)} pages")
                found = document[page - 1]
                width, height = found.get_size()
                if max(width, height) > MOST_POINTS:
                    raise BadInput(f"page {page} measures {width:g} x {height:g} points: too large to show")
                crop = _crop(box, width, height)
                picture = found.render(scale=DPI / 72, crop=crop).to_pil()
        except pdfium.PdfiumError as error:
            raise BadInput(f"the PDF cannot be read ({error})") from error
    data = io.BytesIO()
    picture.save(data, "PNG")
    return read_image(data.getvalue(), f"page {page}")


def _crop(box: Sequence[float], width: float, height: float) -> tuple[float, float, float, float]:
    """Returns the margins that pdfium crops: left, bottom, right, top."""
    if not box:
        return (0, 0, 0, 0)
    if len(box) != 4:
        raise BadInput(f"a bounding box is [x, y, width, height], not {len(box)} numbers")
    x, y, w, h = box
    if not (0 <= x < x + w <= width + 1 and 0 <= y < y + h <= height + 1):
        raise BadInput(f"the box {list(box)} does not lie on the page of {width:g} x {height:g} points")
    return (x, max(0, height - y - h), max(0, width - x - w), y)


def extract_pdf(path: Path) -> dict[str, Any]:
    """Extracts processed data in the published form: one section per page, titled by the outline's entries for that
    page.

    It has no tables, figures, equations or references; the field `extraction` says so.

    Raises:
        BadInput: The PDF cannot be read.
    """
    pdfium = load_pdfium()
    with _lock:
        try:
            with pdfium.PdfDocument(path) as document:
                headings = _outline(document)
                sections = [
                    {
                        "title": "; ".join(headings.get(number, [])) or f"Page {number}",
                        "text": page.get_textpage().get_text_bounded().replace("\r\n", "\n"),
                        "level": 1,
                        "page_number": number,
                        "page_numbers": [number],
                    }
                    for number, page in enumerate(document, 1)
                ]
        except pdfium.PdfiumError as error:
            raise BadInput(f"{path}: cannot be read as a PDF ({error}); correct or remove the file") from error
    return {"extraction": EXTRACTION, "TOC": sections, "tables": [], "figures": [], "equations": [], "references": []}


def _outline(document: Any) -> dict[int, list[str]]:
    """Returns the outline's headings by 1-based page."""
    headings: dict[int, list[str]] = {}
    for entry in document.get_toc():
        target = entry.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            headings.setdefault(index + 1, []).append(entry.get_title())
    return headings


def extract_folder(pdfs: Path, to: Path) -> dict[str, str]:
    """Writes processed data for every `<uuid>.pdf` below a folder; returns the errors of unreadable files."""
    to.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    for path in sorted(pdfs.rglob("*.pdf")):
        try:
            (to / f"{path.stem}.json").write_text(json.dumps(extract_pdf(path), ensure_ascii=False))
        except BadInput as error:
            failed[path.name] = str(error)
    return failed
