"""Commands that build an edition: build, index, report."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.commands.capacity import show_plan
from flows.commands.estimate import show_rehearsal
from flows.commands.options import FLAT, Count, open_pipeline
from flows.commands.terminal import show_json, show_rows, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files, open_update
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName, Field, ReleaseName
from schemas.settings import LSA_DIMENSIONS, CorpusSettings, EncoderSettings, IndexSettings, Stemming


def build(
    *,
    release: ReleaseName | None = None,
    edition: EditionName | None = None,
    from_edition: EditionName | None = None,
    settings: Annotated[CorpusSettings, FLAT] = CorpusSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    plan: bool = False,
    json: bool = False,
) -> None:
    """Build documents, topics and relevance judgments of a release.

    Args:
        release: Id of the release, for example 2024-02-06; left out: the newest in the folder.
        edition: Name of the edition; left out: the release.
        from_edition: Start from this edition's records and apply the diffs up to the release (left out: the newest that
            diffs lead to). The result equals that of reading the whole release, at the cost of what changed.
        dry_run: Build what needs no language model, estimate the calls of the first stage that does, and stop.
        plan: Build nothing; say rows, disk, memory and hours by stage, and whether this machine suffices.
        json: Print the datasets as JSON.
    """
    machine = machine or Machine()
    source = open_update(machine, from_edition, release) if from_edition else open_files(machine, release)
    name = source["papers"].release if isinstance(source, Mapping) else source.release
    with open_pipeline(machine, edition or name, control, new=True) as pipeline:
        if plan:
            show_plan(pipeline, pipeline.plan_corpus(settings, source), machine, json)
            return
        if dry_run:
            show_rehearsal(pipeline, pipeline.plan_corpus(settings, source), machine, name, json)
            return
        built = (
            pipeline.build_corpus(settings, source)
            if isinstance(source, Mapping)
            else pipeline.update_corpus(settings, source)
        )
    _show_counts(pipeline, built, json)


def index(
    *,
    edition: EditionName | None = None,
    field: tuple[Field, ...] = ("abstract",),
    engine: tuple[Literal["bm25", "dense", "lsa"], ...] = ("bm25", "dense"),
    stemming: Stemming = "none",
    lsa_dimensions: Count = LSA_DIMENSIONS,
    ann: Literal["flat", "ivf", "hnsw", "sq8"] = "flat",
    encoder: Annotated[EncoderSettings, Parameter(name="*", group="Encoder")] = EncoderSettings(),
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    plan: bool = False,
    json: bool = False,
) -> None:
    """Build indexes over an edition's documents.

    Args:
        edition: Name of the edition; may be left out when there is only one.
        field: Which part of a document to index.
        engine: BM25, embeddings, a latent semantic index that is trained on the corpus alone, or several of them.
        stemming: How BM25 reduces words; runs on stems have +stemmed in their names.
        lsa_dimensions: Dimensions of the latent semantic index; runs on other than 300 have +lsa<n> in their names.
        ann: Exact search, or an approximate index whose recall against exact search is measured and recorded.
        plan: Build nothing; say rows, disk, memory and hours by stage, and whether this machine suffices.
        json: Print the datasets as JSON.
    """
    settings = IndexSettings(
        bm25_fields=field if "bm25" in engine else (),
        stemming=stemming,
        dense_fields=field if "dense" in engine else (),
        encoder=encoder,
        ann=ann,
        lsa_fields=field if "lsa" in engine else (),
        lsa_dimensions=lsa_dimensions,
    )
    machine = machine or Machine()
    with open_pipeline(machine, edition, control) as pipeline:
        if plan:
            show_plan(pipeline, pipeline.plan_indexes(settings), machine, json)
            return
        built = pipeline.build_indexes(settings)
    _show_counts(pipeline, built, json)


def report(
    *,
    edition: EditionName | None = None,
    to: Path | None = None,
    force: bool = False,
    machine: Annotated[Machine | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Write the report on all scored runs of an edition: one HTML page, Markdown, CSV, JSON, TREC files.

    Args:
        edition: Name of the edition; may be left out when there is only one.
        to: Folder to copy the report to; files of the same names there are replaced.
        force: Write the report again even if it exists.
        json: Print its path as JSON.
    """
    control = StageControl(force=("report",) if force else ())
    with open_pipeline(machine or Machine(), edition, control) as pipeline:
        built = pipeline.write_report()
    folder = pipeline.store.folder(built["report"])
    if to:
        shutil.copytree(folder, to, dirs_exist_ok=True)
        folder = to
    if json:
        show_json({"edition": pipeline.edition, "report": str(folder / "report.html")})
    else:
        show_text(f"report: {folder / 'report.html'}")


def _show_counts(pipeline: Pipeline, built: Slots, json: bool) -> None:
    rows = tables.count_rows(pipeline.store, built)
    if json:
        show_json({"edition": pipeline.edition, "datasets": tables.slot_refs(built), "counts": rows})
    else:
        show_rows(rows, f"edition {pipeline.edition}", decimals=1)
