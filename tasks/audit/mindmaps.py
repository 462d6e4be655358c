"""The sheet on which people check mind-maps against the pictures that they were extracted from."""

import pyarrow.compute as pc

from schemas.llm import Image
from schemas.mindmap import parse_tree
from schemas.tables.mindmaps import MINDMAPS, MindmapRow
from tasks.audit.sample import draw_sample
from tasks.audit.sheet import Drawing, Item, Picture, Sheet, SheetQuestion, Text
from tasks.audit.surveys import paper_link
from tasks.llm.images import read_image
from tasks.reports.treedrawing import draw_tree
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_table

QUESTIONS = (
    SheetQuestion("extraction", "Is the tree what the picture shows?"),
    SheetQuestion("relevance", "Does the picture organise the survey's field?"),
)


def mindmap_sheet(edition: str, mindmaps: Dataset, figures: Dataset | None, n: int, seed: int) -> Sheet:
    """Returns a sheet with a sample of mind-maps, each tree beside the picture that it was extracted from.

    Args:
        edition: The edition's name.
        mindmaps: Dataset of mind-maps, extracted or transcribed.
        figures: Dataset with the pictures; None when the edition has none.
        n: Size of the sample.
        seed: Seed of the sample.

    Raises:
        BadInput: The edition has no mind-map.

    Source: Table 4 of the ResearchArena paper, which checked 25 mind-maps by hand.
    """
    rows = {row.topic_id: row for row in MINDMAPS.rows(mindmaps.table())}
    chosen = draw_sample(rows, n, seed)
    readers = sorted({row.model or row.source for row in rows.values()})
    lead = (
        f"{len(chosen)} of the {len(rows):,} mind-maps of edition {edition}, read by {', '.join(readers)}; "
        f"seed {seed}.\n"
        "Small slips in wording do not matter; a missing, invented or misplaced topic does."
    )
    pictures = _pictures(figures, [rows[topic] for topic in chosen])
    return Sheet(
        name=f"audit-mindmaps-{edition}",
        title=f"Are these the surveys' mind-maps? Edition {edition}",
        lead=lead,
        questions=QUESTIONS,
        items=tuple(_item(rows[topic], pictures.get(topic)) for topic in chosen),
    )


def _pictures(figures: Dataset | None, rows: list[MindmapRow]) -> dict[int, Image]:
    """Returns the pictures of maps by topic, where the edition has them."""
    wanted = {(row.topic_id, row.image_sha256): row.topic_id for row in rows if row.image_sha256}
    found: dict[int, Image] = {}
    for path in figures.files() if figures and wanted else ():
        chosen = pc.field("corpus_id").isin([topic for topic, _ in wanted])
        chosen &= pc.field("image_sha256").isin([digest for _, digest in wanted])
        for row in read_table(path, columns=["corpus_id", "image_sha256", "image"], filters=chosen).to_pylist():
            if topic := wanted.get((row["corpus_id"], row["image_sha256"])):
                found[topic] = read_image(row["image"], f"of survey {topic}")
    return found


def _item(row: MindmapRow, picture: Image | None) -> Item:
    parts = (
        Text("Caption", row.caption or "(none)"),
        Picture("Picture", picture),
        Drawing("Tree", draw_tree(parse_tree(row.tree))),
    )
    return Item(str(row.topic_id), row.title, parts, paper_link(row.topic_id))
