"""The sheet on which people check whether accepted surveys are surveys."""

import polars as pl

from tasks.audit.sample import draw_sample
from tasks.audit.sheet import Item, Sheet, SheetQuestion, Text
from tasks.store.dataset import Dataset

QUESTION = SheetQuestion(
    "survey", "Does the paper give an organised view of the state of a research field on one topic?"
)


def survey_sheet(edition: str, surveys: Dataset, papers: Dataset, n: int, seed: int) -> Sheet:
    """Returns a sheet with a sample of the accepted surveys: title, abstract and link.

    Raises:
        BadInput: No candidate was accepted.

    Source: Table 4 of the ResearchArena paper, which checked 25 surveys by hand.
    """
    accepted = pl.scan_parquet(surveys.files()).filter("accepted").collect()
    chosen = draw_sample(accepted["corpus_id"], n, seed)
    about = ("corpus_id", "title", "abstract", "url", "date")
    rows = pl.scan_parquet(papers.files()).select(about).filter(pl.col("corpus_id").is_in(chosen)).collect()
    by_id = {row["corpus_id"]: row for row in rows.iter_rows(named=True)}
    deciders = accepted.select(pl.coalesce("model", "selector")).to_series().unique().sort()
    lead = (
        f"{len(chosen)} of the {len(accepted):,} papers of edition {edition} that were accepted as literature surveys "
        f"by {', '.join(deciders)}; seed {seed}.\nA questionnaire, a poll, a population or sky survey is a no."
    )
    return Sheet(
        name=f"audit-surveys-{edition}",
        title=f"Are these surveys? Edition {edition}",
        lead=lead,
        questions=(QUESTION,),
        items=tuple(_item(by_id[corpus_id]) for corpus_id in chosen),
    )


def paper_link(corpus_id: int, url: str | None = None) -> str:
    """Returns a paper's page: `url` when there is one, else the page at Semantic Scholar."""
    return url or f"https://api.semanticscholar.org/CorpusID:{corpus_id}"


def _item(row: dict[str, object]) -> Item:
    corpus_id, date = int(str(row["corpus_id"])), row["date"]
    parts = (Text("Abstract", str(row["abstract"] or "(none known)")), Text("Date", str(date or "(not known)")))
    return Item(str(corpus_id), str(row["title"]), parts, paper_link(corpus_id, str(row["url"] or "") or None))
