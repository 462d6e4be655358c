"""A small library of papers made from metadata records, built by the real stages."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Ref
from schemas.paperqa import PaperId, PaperMetadata, Question, QuestionId
from schemas.settings import EncoderSettings, Resources
from tasks.demo.paperqa import write_synthetic
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.paperqa.chunks import ChunkSettings, paperqa_chunks
from tasks.paperqa.files import open_folder
from tasks.paperqa.paper_library import PaperLibrary
from tasks.paperqa.store import StoreSettings, paperqa_store
from tasks.store.store import Request, Store
from tests.index.conftest import save_tiny_model

ONE_CORE = Resources(workers=1)


def paper(title: str, venue: str = "ACL", year: int = 2023, **more: Any) -> dict[str, Any]:
    """A metadata record whose uuid follows the rule."""
    record = {
        "title": title,
        "conference_full": f"{venue} in full",
        "conference": venue,
        "year": year,
        "volume": None,
        "bibtex": "@x{}",
        "authors": ["A. Author"],
        "num_pages": 9,
        "pdf_url": "https://example.org/x.pdf",
        "pdf_path": "x.pdf",
        "abstract": f"We study {title.lower()}. It works well. Nobody did it before",
        "tldr": "",
        "tags": ["learning"],
        **more,
    }
    fitting = PaperMetadata.model_validate({"uuid": str(uuid.uuid4()), **record}).expected_uuid()
    return {"uuid": fitting, **record}


def minimal_pdf(text: str) -> bytes:
    """A PDF of one page of 200 x 100 points with a line of text and an outline entry."""
    stream = f"BT /F1 12 Tf 20 50 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/Outlines 6 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/Outlines/First 7 0 R/Last 7 0 R/Count 1>>",
        b"<</Title(Opening)/Parent 6 0 R/Dest[3 0 R/Fit]>>",
    ]
    body, starts = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        starts.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    size = len(objects) + 1
    return body + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        size, table, size, len(body),
    )  # fmt: skip


PAPERS = [
    paper("Graph networks for text"),
    paper("Bird song survey"),
    paper("Sparse image model", "ICLR", 2024),
    paper("Deep robust learning", "NeurIPS", 2023),
]
GRAPH, BIRD, IMAGE, DEEP = (PaperId(record["uuid"]) for record in PAPERS)


def ask(text: str = "Which song?", anchors: tuple[PaperId, ...] = (), venues: tuple[str, ...] = ()) -> Question:
    uid = QuestionId(str(uuid.uuid5(uuid.NAMESPACE_DNS, text)))
    return Question(uuid=uid, question=text, answer_format="one word", anchor_pdf=anchors, conference=venues)


def write_records(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for record in records:
        (folder / f"{record['uuid']}.json").write_text(json.dumps(record))
    return folder


class Shelf:
    """Datasets of a library in a store of their own."""

    def __init__(self, root: Path, encoder: EncoderSettings) -> None:
        metadata = write_records(root / "metadata", PAPERS)
        write_synthetic(metadata, root / "processed")
        (root / "pdfs").mkdir()
        (root / "pdfs" / f"{BIRD}.pdf").write_bytes(minimal_pdf("A sparrow sings"))
        self.root = root
        self.store = Store(root / "store")
        files = {
            "metadata": open_folder("airqa_metadata", metadata),
            "processed": open_folder("airqa_processed", root / "processed"),
        }
        self.papers = self.build(paperqa_store, StoreSettings(), files)
        self.chunks = self.build(paperqa_chunks, ChunkSettings(), {"papers": self.papers})
        over = {"documents": self.chunks}
        self.bm25 = self.build(bm25, Bm25Settings(field="title_abstract"), over)
        self.embeddings = self.build(embeddings, EmbeddingSettings(field="title_abstract", encoder=encoder), over)

    def build(self, stage: Any, settings: Any, inputs: Any, **further: Any) -> Ref:
        return self.store.build(Request(stage, settings, inputs), ONE_CORE, **further).ref

    @property
    def inputs(self) -> dict[str, Ref]:
        return {"papers": self.papers, "chunks": self.chunks, "bm25": self.bm25, "embeddings": self.embeddings}


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    encoder = EncoderSettings(model=str(save_tiny_model(tmp_path_factory.mktemp("tiny"), seed=0)))
    return Shelf(tmp_path_factory.mktemp("shelf"), encoder)


@pytest.fixture(scope="session")
def library(shelf: Shelf) -> Iterator[PaperLibrary]:
    opened = {name: shelf.store.open(ref) for name, ref in shelf.inputs.items()}
    with PaperLibrary(**opened, pdfs=(shelf.root / "pdfs").glob("*.pdf"), resources=ONE_CORE) as library:
        yield library
