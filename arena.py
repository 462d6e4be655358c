"""The public interface of the project: what plug-ins and notebooks import.

Every name below stays as it is within a major version; a name that goes is announced in CHANGELOG.md one minor version
ahead. Everything else in the packages `tasks`, `schemas` and `flows` may change at any time. Importing this module is
cheap: a name is loaded when it is first used.

A plug-in is one file of another package that imports this module and registers something with a decorator. The package
names the file in its entry points, and from then on the command line, the scores and the report know the plug-in:

    [project.entry-points."arena.metrics"]
    success_5 = "my_package.success"

| to add | entry-point group | decorator | gets | returns |
| --- | --- | --- | --- | --- |
| a measure of rankings | `arena.metrics` | `measure` | `Judged` | an array, one value a topic |
| a system that finds papers | `arena.baselines` | `baseline` | `Topic`, `Kit` | `Ranking` of `Hit` |
| a builder of mind-maps | `arena.builders` | `builder` | `Material` | `Organized` with a `Tree` |
| a search engine | `arena.engines` | `engine` | `EngineKit` | `Engine`, which returns `Found` papers |
| a judge of search results | `arena.judges` | `judge` | the model's answer | `Verdict` |
| an AirQA system | `arena.paperqa_baselines` | `paperqa_baseline` | `PaperQaQuestion`, `PaperQaKit` | `Answered` |
| a judge of surveys | `arena.selectors` | `survey_selector` | `Candidate`, `ModelConnection` | `SurveyVerdict` |
| an export format | `arena.exporters` | `exporter` | `Edition`, a folder | paths of files |
| a stage | `arena.stages` | `stage` | `Workspace` with `Settings` and `Dataset` inputs | nothing; it writes files |

| for | names |
| --- | --- |
| systems that search | `ResearchDesk`, `Document`, `WeightedTerms`, `Vector`, `Outcome` |
| asking a language model | `Demand` (declares it), `Asker`, `Reply`, `Parameters`, `Prompt`, `read_prompt` |
| trees | `Tree`, `References`, `Example`, `load_tree`, `lone_node` |
| answers to questions | `PaperQaStep`, `PaperQaDesk` |
| search results | `Paper` |
| files and tables | `Table`, `Column`, `declare`, `write_rows`, `write_lines` |
| errors | `ArenaError`, `BadInput`, `UsageError`, `StageFailed`, `TransientError` |
| scoring | `evaluate_run`, `Evaluation`, `reciprocal_rank_fusion`, `tree_edit_distance`, `tree_semantic_distance`, |
| | `heading_soft_recall`, `heading_entity_recall`, `evaluate_answer` |
| notebooks | `open_edition`, `Edition` |
| finding out what there is | `plugins`, `Plugin`, `__version__` |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import os

    from schemas.errors import ArenaError, BadInput, StageFailed, TransientError, UsageError
    from schemas.identifiers import Outcome
    from schemas.llm import Demand, Parameters, Reply
    from schemas.mindmap import Tree, load_tree
    from schemas.paperqa import Question as PaperQaQuestion
    from schemas.search import Found
    from schemas.settings import Settings
    from schemas.table import Column, Table, declare
    from schemas.topic import Hit, Topic
    from tasks.corpus.survey_selector import Candidate, ModelConnection, survey_selector
    from tasks.corpus.survey_selector import Verdict as SurveyVerdict
    from tasks.exports.edition import Edition
    from tasks.exports.exporter import exporter, write_lines
    from tasks.llm.asker import Asker
    from tasks.llm.prompt import Prompt, read_prompt
    from tasks.metrics.headings import heading_entity_recall, heading_soft_recall
    from tasks.metrics.ranking.evaluation import Evaluation, evaluate_run
    from tasks.metrics.ranking.measure import Judged, measure
    from tasks.metrics.trees import tree_edit_distance, tree_semantic_distance
    from tasks.organization.builder import Material, Organized, References, builder, lone_node
    from tasks.organization.examples import Example
    from tasks.paperqa.baseline import Answered, paperqa_baseline
    from tasks.paperqa.baseline import Kit as PaperQaKit
    from tasks.paperqa.baseline import Step as PaperQaStep
    from tasks.paperqa.desk import PaperQaDesk
    from tasks.paperqa.evaluators import evaluate_answer
    from tasks.ranking.baseline import Kit, Ranking, baseline
    from tasks.retrieval.desk import ResearchDesk
    from tasks.retrieval.documents import Document
    from tasks.retrieval.fusion import reciprocal_rank_fusion
    from tasks.retrieval.retriever import Vector, WeightedTerms
    from tasks.search.engine import Engine, EngineKit, engine
    from tasks.search.judge import Paper, Verdict, judge
    from tasks.store.dataset import Dataset
    from tasks.store.parquet import write_rows
    from tasks.store.stage import stage
    from tasks.store.workspace import Workspace

    __version__: str

__all__ = [
    "Answered", "ArenaError", "Asker", "BadInput", "Candidate", "Column", "Dataset", "Demand", "Document",
    "Edition", "Engine", "EngineKit", "Evaluation", "Example", "Found", "Hit", "Judged", "Kit", "Material",
    "ModelConnection", "Organized", "Outcome", "Paper", "PaperQaDesk", "PaperQaKit", "PaperQaQuestion",
    "PaperQaStep", "Parameters", "Plugin", "Prompt", "Ranking", "References", "Reply", "ResearchDesk", "Settings",
    "StageFailed", "SurveyVerdict", "Table", "Topic", "TransientError", "Tree", "UsageError", "Vector", "Verdict",
    "WeightedTerms", "Workspace", "__version__", "baseline", "builder", "declare", "engine", "evaluate_answer",
    "evaluate_run", "exporter", "heading_entity_recall", "heading_soft_recall", "judge", "load_tree", "lone_node",
    "measure", "open_edition", "paperqa_baseline", "plugins", "read_prompt", "reciprocal_rank_fusion", "stage",
    "survey_selector", "tree_edit_distance", "tree_semantic_distance", "write_lines", "write_rows",
]  # fmt: skip

_HOMES = {
    "schemas.errors": "ArenaError BadInput StageFailed TransientError UsageError",
    "schemas.identifiers": "Outcome",
    "schemas.llm": "Demand Parameters Reply",
    "schemas.mindmap": "Tree load_tree",
    "schemas.paperqa": "PaperQaQuestion=Question",
    "schemas.search": "Found",
    "schemas.settings": "Settings",
    "schemas.table": "Column Table declare",
    "schemas.topic": "Hit Topic",
    "tasks.corpus.survey_selector": "Candidate ModelConnection SurveyVerdict=Verdict survey_selector",
    "tasks.exports.edition": "Edition",
    "tasks.exports.exporter": "exporter write_lines",
    "tasks.llm.asker": "Asker",
    "tasks.llm.prompt": "Prompt read_prompt",
    "tasks.metrics.headings": "heading_entity_recall heading_soft_recall",
    "tasks.metrics.ranking.evaluation": "Evaluation evaluate_run",
    "tasks.metrics.ranking.measure": "Judged measure",
    "tasks.metrics.trees": "tree_edit_distance tree_semantic_distance",
    "tasks.organization.builder": "Material Organized References builder lone_node",
    "tasks.organization.examples": "Example",
    "tasks.paperqa.baseline": "Answered PaperQaKit=Kit PaperQaStep=Step paperqa_baseline",
    "tasks.paperqa.desk": "PaperQaDesk",
    "tasks.paperqa.evaluators": "evaluate_answer",
    "tasks.ranking.baseline": "Kit Ranking baseline",
    "tasks.retrieval.desk": "ResearchDesk",
    "tasks.retrieval.documents": "Document",
    "tasks.retrieval.fusion": "reciprocal_rank_fusion",
    "tasks.retrieval.retriever": "Vector WeightedTerms",
    "tasks.search.engine": "Engine EngineKit engine",
    "tasks.search.judge": "Paper Verdict judge",
    "tasks.store.dataset": "Dataset",
    "tasks.store.parquet": "write_rows",
    "tasks.store.stage": "stage",
    "tasks.store.workspace": "Workspace",
}
"""The names of each module; `public=private` where they differ. The imports above say the same to type checkers."""

_LOADED_FROM = {
    public: (module, private or public)
    for module, names in _HOMES.items()
    for public, _, private in (name.partition("=") for name in names.split())
}

_KINDS = {
    "measure": ("arena.metrics", "tasks.metrics.ranking.measure:all_measures"),
    "baseline": ("arena.baselines", "tasks.ranking.baseline:all_baselines"),
    "builder": ("arena.builders", "tasks.organization.builder:all_builders"),
    "search engine": ("arena.engines", "tasks.search.engine:all_engines"),
    "judge": ("arena.judges", "tasks.search.judge:all_judges"),
    "AirQA system": ("arena.paperqa_baselines", "tasks.paperqa.baseline:all_paperqa_baselines"),
    "survey selector": ("arena.selectors", "tasks.corpus.survey_selector:all_selectors"),
    "exporter": ("arena.exporters", "tasks.exports.exporter:all_exporters"),
    "stage": ("arena.stages", "tasks.store.stages:all_stages"),
}
"""The entry-point group of each kind of plug-in, and the function that returns those that are registered."""


class Plugin(NamedTuple):
    """Something registered: its kind and name, one sentence on what it does, and the kind's entry-point group."""

    kind: str
    name: str
    description: str
    group: str


def plugins(kind: str | None = None) -> list[Plugin]:
    """Returns everything that is registered, of this project and of installed packages.

    Args:
        kind: Only this kind, for example `baseline`; None: every kind.

    Raises:
        UsageError: There is no such kind.
        MissingDependency: A plug-in needs a package that is not installed.
    """
    if kind not in (None, *_KINDS):
        from schemas.errors import UsageError

        raise UsageError(f"no kind of plug-in is named {kind!r}; there are: {', '.join(_KINDS)}")
    found: list[Plugin] = []
    for one in [kind] if kind else _KINDS:
        group, home = _KINDS[one]
        module, _, function = home.partition(":")
        registered = getattr(import_module(module), function)()
        found += [Plugin(one, name, _describe(thing), group) for name, thing in registered.items()]
    return found


def open_edition(name: str, root: "str | os.PathLike[str] | None" = None) -> "Edition":
    """Opens an edition for reading: its tables as Polars frames and DuckDB views, its runs and its judgments.

    Args:
        name: The edition's name, as `arena edition list` shows it.
        root: Folder of the store; None: the environment's ARENA_ROOT, else `arena-root`.

    Raises:
        UsageError: There is no such edition; the message lists those there are.
    """
    import os
    from pathlib import Path

    from tasks.exports import edition

    return edition.open_edition(Path(root or os.environ.get("ARENA_ROOT", "arena-root")), name)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("research-arena")
    elif name in _LOADED_FROM:
        module, attribute = _LOADED_FROM[name]
        value = getattr(import_module(module), attribute)
    else:
        raise AttributeError(f"module 'arena' has no attribute {name!r}; arena.__all__ lists what it exports")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def _describe(thing: Any) -> str:
    """Returns the sentence that a thing was registered with, else the first line of its docstring."""
    return getattr(thing, "description", None) or (thing.__doc__ or "").partition("\n")[0]
