"""The `organize` stage: a builder makes a tree of every topic that has a mind-map."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, get_args

import polars as pl
import pyarrow as pa
from pydantic import Field
from threadpoolctl import threadpool_limits

from schemas.errors import BadInput, MissingDependency, ModelError, OverBudget, StageFailed, TransientError, UsageError
from schemas.identifiers import Outcome
from schemas.llm import LlmAccess, ModelName
from schemas.manifest import Counts
from schemas.mindmap import Shape, Tree, dump_tree, load_tree, tree_shape
from schemas.settings import Settings
from schemas.tables.runs import OUTCOMES, OUTLINES
from schemas.tables.trees import TREES
from schemas.topic import Topic
from tasks.llm.asker import Asker, in_threads, open_door, write_calls
from tasks.llm.blocking import BlockingDoor
from tasks.organization.builder import Builder, Material, find_builder
from tasks.organization.examples import Example, choose_examples
from tasks.organization.reference_texts import ReferenceLibrary
from tasks.ranking.answers import NOTE_LENGTH
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.shard import Shard, in_shards
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

Row = dict[str, Any]
ReferenceSource = Literal["oracle", "run"]

SHARD_TOPICS = 16
"""Topics of a shard: what a killed stage builds again at most."""


class OrganizeSettings(Settings):
    """Which builder, and of which references it makes trees."""

    builder: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Who makes the trees.")
    builder_version: int = Field(ge=1, description="Of the registered builder: a changed one is another system.")
    references: ReferenceSource = Field(
        default="oracle", description="The survey's own references (its qrels), or what a run found."
    )
    depth: int = Field(default=100, ge=1, description="How many documents of a run are taken, from the top.")
    examples: int = Field(default=3, ge=0, description="Mind-maps of other surveys that a builder is shown.")
    limit_topics: int | None = Field(default=None, ge=1, description="Development only: the first topics by id.")
    seed: int = Field(default=42, description="Of the choice of examples, and for builders that draw something.")
    model: ModelName | None = Field(default=None, description="Which model the builder asks; empty: none.")
    tag: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", description="Name of the system.")


class _Inputs(NamedTuple):
    """What all topics share."""

    settings: OrganizeSettings
    builder: Builder
    references: Mapping[int, Sequence[int]]
    library: ReferenceLibrary
    pool: Sequence[Example]
    outlines: Mapping[int, str]


def _outlines(work: Workspace[OrganizeSettings], topics: Sequence[Topic]) -> dict[int, str]:
    """What a run wrote, by topic."""
    files = _run_over(work, topics).files(OUTLINES.name)
    return dict(pl.read_parquet(files).select("topic_id", "outline").iter_rows()) if files else {}


def _run_over(work: Workspace[OrganizeSettings], topics: Sequence[Topic]) -> Dataset:
    """The run, which must have been made for all the topics."""
    run = work.dataset("run")
    answered = set(run.table(OUTCOMES.name, ["topic_id"])["topic_id"].to_pylist())
    if lacking := [topic.topic_id for topic in topics if topic.topic_id not in answered]:
        raise StageFailed(
            f"stage organize: the run was not made for {len(lacking)} of {len(topics)} topics (first: {lacking[0]}); "
            "take a run over all topics, or limit both to the same ones"
        )
    return run


class _Answer(NamedTuple):
    """A topic's row (None: there is nothing to organise, whoever does it), and how many references were not read."""

    row: Row | None
    unread: int
    asker: Asker | None = None


@stage("organize", version=1, settings=OrganizeSettings, after="scores")
def organize(work: Workspace[OrganizeSettings]) -> None:
    """Writes TREES: a row for every evaluated topic that has a mind-map; a shard holds 16 topics.

    Of a builder that asks a model, MODEL_CALLS is written beside, and a shard's topics are worked on in threads.

    Inputs: `topics`, `mindmaps`, `documents`; `embeddings` for builders that need vectors; `run` when the references
    are a run's.

    A reference without embedding is left out where vectors are needed. Without any reference left, a builder that
    needs some is not asked: with a run the outcome is `empty`, with the survey's own the topic is dropped and counted
    (`no_references`), as no system could do better. A builder's error is an outcome of that topic alone.

    Raises:
        StageFailed: The registered builder has another version than the settings say, an input is lacking, or the run
            was made for other topics.
        UsageError: The builder asks a model, and the settings or the machine have none.
    """
    settings = work.settings
    made_by = _builder(work)
    topics = evaluated_topics(work.dataset("topics"), settings.limit_topics, work.dataset("mindmaps"))
    maps = pl.read_parquet(work.dataset("mindmaps").files()).sort("topic_id")
    asked = [Topic(*row) for row in topics.select("topic_id", "title", "horizon").iter_rows()]
    groups = in_shards(asked, SHARD_TOPICS, least=1)
    inputs = _open(work, made_by, asked, maps)
    with (
        threadpool_limits(1, user_api="blas"),  # many small products: threads only get in each other's way
        open_door(work.llm, settings.model) if settings.model else nullcontext() as door,
    ):
        for shard in work.pending(list(groups)):
            with shard:
                _write_group(shard, groups[shard.name], inputs, door, work.llm)


def _builder(work: Workspace[OrganizeSettings]) -> Builder:
    settings = work.settings
    found = find_builder(settings.builder)
    require_version(f"stage organize: builder {found.name}", found.version, settings.builder_version)
    if (found.asks is None) != (settings.model is None):
        needs = "asks a model; name one" if found.asks else "asks no model; name none"
        raise UsageError(f"builder {found.name} {needs}")
    needed = {"topics", "mindmaps", "documents"}
    needed |= {"run"} if settings.references == "run" or "outline" in found.needs else set()
    needed |= {"embeddings"} if "vectors" in found.needs else set()
    if lacking := needed - set(work.inputs):
        raise StageFailed(f"stage organize: {settings.tag} lacks {', '.join(sorted(lacking))}; build that first")
    return found


def _open(work: Workspace[OrganizeSettings], made_by: Builder, topics: Sequence[Topic], maps: pl.DataFrame) -> _Inputs:
    references: dict[int, list[int]] = {}
    if "references" in made_by.needs:
        found = _of_run(work, topics) if work.settings.references == "run" else _of_qrels(work)
        references = {topic.topic_id: found.get(topic.topic_id, []) for topic in topics}
    embeddings = work.dataset("embeddings") if "vectors" in made_by.needs else None
    ids = {corpus_id for of_topic in references.values() for corpus_id in of_topic}
    pool = [Example(*row) for row in maps.select(Example._fields).iter_rows()] if "examples" in made_by.needs else []
    library = ReferenceLibrary(work.dataset("documents"), embeddings, ids)
    outlines = _outlines(work, topics) if "outline" in made_by.needs else {}
    return _Inputs(work.settings, made_by, references, library, pool, outlines)


def _of_qrels(work: Workspace[OrganizeSettings]) -> dict[int, list[int]]:
    """Relevant documents by topic, ascending by corpus_id."""
    return {topic: sorted(documents) for topic, documents in read_qrels(work.dataset("topics")).items()}


def _of_run(work: Workspace[OrganizeSettings], topics: Sequence[Topic]) -> dict[int, list[int]]:
    """A run's first documents by topic, best first."""
    run = _run_over(work, topics)
    rows = pl.read_parquet(run.files(), columns=["topic_id", "corpus_id", "rank"])
    rows = rows.filter(pl.col("rank") <= work.settings.depth).sort("topic_id", "rank")
    return dict(rows.group_by("topic_id").agg("corpus_id").iter_rows())


def _write_group(
    shard: Shard, topics: Sequence[Topic], inputs: _Inputs, door: BlockingDoor | None, access: LlmAccess | None
) -> None:
    answers = in_threads(lambda topic: _answer(topic, inputs, door), topics, access if door else None)
    for answer in answers:
        shard.counts.add(_count(answer.row, answer.unread))
    rows = [answer.row for answer in answers if answer.row is not None]
    write_table(shard.file(f"part-{shard.name}.parquet"), TREES, pa.Table.from_pylist(rows, TREES.arrow))
    if door:
        write_calls(shard.file(f"calls-{shard.name}.parquet"), (answer.asker for answer in answers if answer.asker))


def _answer(topic: Topic, inputs: _Inputs, door: BlockingDoor | None) -> _Answer:
    settings = inputs.settings
    cited = inputs.references.get(topic.topic_id, [])
    references = inputs.library.references(cited)
    unread = len(cited) - len(references.ids)
    fixed = {"tag": settings.tag, "topic_id": topic.topic_id, "references": len(references.ids)}
    if "references" in inputs.builder.needs and not references.ids:
        if settings.references == "oracle":
            return _Answer(None, unread)
        return _Answer(fixed | _row("empty", "the run has no document that can be read"), unread)
    examples = choose_examples(inputs.pool, topic, settings.seed, settings.examples)
    asker = Asker(door, "organize", settings.model, str(topic.topic_id)) if door and settings.model else None
    outline = inputs.outlines.get(topic.topic_id)
    material = Material(topic, references, examples, settings.seed, asker, outline)
    return _Answer(fixed | organize_topic(inputs.builder, material), unread, asker)


def _count(built: Row | None, unread: int) -> Counts:
    counts = Counts(read=1, notes={"references_not_read": unread} if unread else {})
    outcome = "no_references" if built is None else built["outcome"]
    if outcome == "scored":
        counts.kept = 1
    elif outcome == "failed":
        counts.failed = 1
    else:
        counts.dropped[outcome] = 1
    return counts


def organize_topic(made_by: Builder, material: Material) -> Row:
    """Asks a builder; whatever goes wrong in it, or with its tree, is an outcome of this topic alone.

    Returns:
        The columns of TREES but for `tag`, `topic_id` and `references`.

    Raises:
        TransientError: A service failed for now; nothing is said about the builder.
        MissingDependency: The builder cannot run on this machine.
        ModelError: The model that the builder asks cannot be used.
    """
    try:
        made = made_by.build(material)
        if made.outcome not in get_args(Outcome):
            raise BadInput(f"the builder ended with outcome {made.outcome!r}; choose of {get_args(Outcome)}")
        tree = None if made.tree is None else load_tree(made.tree)
        outcome = "empty" if made.outcome == "scored" and tree is None else made.outcome
        return _row(outcome, made.note, made.fallback, tree)
    except (TransientError, MissingDependency, ModelError):
        raise
    except OverBudget as error:
        return _row("over_budget", str(error)[:NOTE_LENGTH])
    except Exception as error:
        log.warning("topic %d: builder %s failed", material.topic.topic_id, made_by.name, exc_info=True)
        return _row("failed", f"{type(error).__name__}: {error}"[:NOTE_LENGTH])


def _row(outcome: Outcome, note: str | None, fallback: bool = False, tree: Tree | None = None) -> Row:
    shape = Shape(0, 0) if tree is None else tree_shape(tree)
    return {
        "outcome": outcome,
        "note": note,
        "fallback": fallback,
        "tree": None if tree is None else dump_tree(tree),
        "nodes": shape.nodes,
        "depth": shape.depth,
    }
