"""Where each stage is: from its name in a manifest or a recipe back to what executes it.

Modules are imported when a stage is asked for, because some need an optional package.
"""

from importlib import import_module

from flows.pipeline.services import web_access
from schemas.identifiers import StageName
from tasks.store.stage import AnyStage

MODULES: dict[StageName, str] = {
    "paper_records": "tasks.corpus.records",
    "abstract_records": "tasks.corpus.records",
    "citation_records": "tasks.corpus.records",
    "full_texts": "tasks.corpus.records",
    "papers": "tasks.corpus.papers",
    "surveys": "tasks.corpus.surveys",
    "references": "tasks.corpus.references",
    "documents": "tasks.corpus.documents",
    "topics": "tasks.corpus.topics",
    "figures": "tasks.corpus.figures.stage",
    "extracted_mindmaps": "tasks.corpus.extracted_mindmaps",
    "mindmaps": "tasks.corpus.mindmaps",
    "statistics": "tasks.corpus.statistics",
    "bm25": "tasks.index.bm25",
    "embeddings": "tasks.index.embeddings",
    "ann": "tasks.index.ann",
    "run": "tasks.ranking.runs",
    "scores": "tasks.ranking.scores",
    "organize": "tasks.organization.organize",
    "tree_scores": "tasks.organization.tree_scores",
    "paperqa_questions": "tasks.paperqa.store",
    "paperqa_store": "tasks.paperqa.store",
    "paperqa_chunks": "tasks.paperqa.chunks",
    "paperqa_run": "tasks.paperqa.runs",
    "paperqa_scores": "tasks.paperqa.scores",
    "paperqa_report": "tasks.reports.paperqa_report",
    "search_queries": "tasks.search.queries",
    "search_results": "tasks.search.results",
    "judge": "tasks.search.judgments",
    "search_scores": "tasks.search.scores",
    "agreement": "tasks.search.judge_agreement",
    "search_report": "tasks.reports.search_report",
    "report": "tasks.reports.report",
}
"""The module of each stage; the stage is named there as everywhere."""


def find_stage(name: StageName) -> AnyStage:
    """The stage of that name.

    Raises:
        MissingDependency: It needs a package that is not installed.
    """
    module = import_module(MODULES[name])
    return module.with_web(web_access()) if name == "search_results" else getattr(module, name)
