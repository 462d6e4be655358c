"""Runs AirQA: builds the library, runs systems on the questions, scores the answers and writes the report."""

from flows.pipeline.models import choose_model
from flows.pipeline.plans.paperqa import PaperQaFiles, PaperQaPlan, plan_library, plan_page, plan_runs
from flows.pipeline.plans.steps import Step
from flows.pipeline.walk import Pipeline, Slots
from tasks.paperqa.files import RELEASE, open_folder
from tasks.store.editions import Editions


def answer_questions(pipeline: Pipeline, files: PaperQaFiles, settings: PaperQaPlan) -> Slots:
    """Builds the library, runs every system, scores the runs and writes the report on all runs of the edition.

    Raises:
        UsageError: A system is not known, or no model is set up.
        ArenaError: A stage failed.
    """
    store = pipeline.store
    steps = plan_questions(pipeline, files, settings)
    new = pipeline.edition not in Editions(store).names()
    built = pipeline.walk(steps, release=RELEASE if new else None)
    slots = Editions(store).load(pipeline.edition).slots
    return built | pipeline.walk([plan_page(pipeline.edition, slots)])


def plan_questions(pipeline: Pipeline, files: PaperQaFiles, settings: PaperQaPlan) -> list[Step]:
    """Returns the steps that build the library, run every system and score the runs.

    Raises:
        UsageError: A system is not known, or no model is set up.
    """
    root = pipeline.store.root
    model = choose_model(root, settings.model)
    judge = choose_model(root, settings.judge) if settings.judge else None
    pdfs = open_folder("airqa_pdfs", files.pdfs) if files.pdfs else None
    return [*plan_library(files, settings), *plan_runs(settings, model, judge, pdfs)]
