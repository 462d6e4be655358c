"""The `organize` stage: a builder makes a tree for every topic that has a mind-map."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, NamedTuple, get_args

import polars as pl
from pydantic import Field
from threadpoolctl import threadpool_limits

from schemas.errors import BadInput, MissingDependency, ModelError, StageFailed, TransientError
from schemas.identifiers import Outcome
from schemas.llm import ModelName
from schemas.mindmap import Shape, dump_tree, load_tree, tree_shape
from schemas.settings import TopicSubset
from schemas.tables.runs import OUTCOMES, OUTLINES
from schemas.tables.trees import TREES, TreeRow
from schemas.topic import Topic
from tasks.llm.asker import Asker, require_model
from tasks.llm.earlier_answers import FALLBACK
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import Answerer, Subjects, answer_subjects, attempt
from tasks.organization.builder import Builder, Material, find_builder
from tasks.organization.examples import Example, choose_examples
from tasks.organization.reference_texts import ReferenceLibrary
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.store.dataset import Dataset
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

ReferenceSource = Literal["oracle", "run"]

SHARD_TOPICS = 16

NOT_THE_BUILDER = (TransientError, MissingDependency, ModelError)
"""Errors that say nothing about a builder: they end the stage."""


class OrganizeSettings(TopicSubset):
    """Which builder makes the trees, and of which references."""

    builder: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Who makes the trees.")
    builder_version: int = Field(ge=1, description="Of the registered builder: a changed one is another system.")
    references: ReferenceSource = Field(
        default="oracle", description="The survey's own references (its qrels), or what a run found."
    )
    depth: int = Field(default=100, ge=1, description="How many documents of a run are taken, from the top.")
    examples: int = Field(default=3, ge=0, description="Mind-maps of other surveys that a builder is shown.")
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


class Built(NamedTuple):
    """A builder's valid answer for a topic: how it ended, why, and the tree as it is stored, where there is one."""

    outcome: Outcome
    note: str | None
    fallback: bool = False
    tree: str | None = None
    shape: Shape = Shape(0, 0)


@stage("organize", version=2, settings=OrganizeSettings, after="scores")
def organize(work: Workspace[OrganizeSettings]) -> None:
    """Writes TREES: a row for every evaluated topic that has a mind-map; a shard holds 16 topics.

    With a builder that asks a model, MODEL_CALLS is a side table, and the topics of a shard are answered in threads.

    Inputs: `topics`, `mindmaps`, `documents`; `embeddings` for builders that need vectors; `run` when the references
    are a run's.

    Where vectors are needed, references without an embedding are left out. A builder that needs references is not
    asked where none are left: with a run the outcome is `empty`; with the survey's own references the topic is dropped
    and counted (`no_references`), as no system could do better. A builder's error is an outcome of that topic alone.

    Raises:
        StageFailed: The registered builder has another version than the settings say, an input is missing, or the run
            was made for other topics.
        UsageError: The builder asks a model, and the settings or the machine have none.
    """
    settings = work.settings
    found = _find_builder(work)
    rows = evaluated_topics(work.dataset("topics"), settings, work.dataset("mindmaps"))
    topics = [Topic(*row) for row in rows.select("topic_id", "title", "horizon").iter_rows()]
    subjects = Subjects(
        items=topics,
        shard_size=SHARD_TOPICS,
        name=lambda topic: str(topic.topic_id),
        tables={"part": TREES},
        open=partial(_open, work, found, topics),
        model=settings.model,
        key=("topic_id",),
    )
    answer_subjects(work, subjects)


def _find_builder(work: Workspace[OrganizeSettings]) -> Builder:
    settings = work.settings
    found = find_builder(settings.builder)
    require_version(f"stage organize: builder {found.name}", found.version, settings.builder_version)
    require_model(f"builder {found.name}", found.asks is not None, settings.model)
    needed = {"topics", "mindmaps", "documents"}
    needed |= {"run"} if settings.references == "run" or "outline" in found.needs else set()
    needed |= {"embeddings"} if "vectors" in found.needs else set()
    if lacking := needed - set(work.inputs):
        raise StageFailed(f"stage organize: {settings.tag} lacks {', '.join(sorted(lacking))}; build that first")
    return found


@contextmanager
def _open(work: Workspace[OrganizeSettings], made_by: Builder, topics: Sequence[Topic]) -> Generator[Answerer[Topic]]:
    references: dict[int, list[int]] = {}
    if "references" in made_by.needs:
        found = _references_of_run(work, topics) if work.settings.references == "run" else _references_of_qrels(work)
        references = {topic.topic_id: found.get(topic.topic_id, []) for topic in topics}
    embeddings = work.dataset("embeddings") if "vectors" in made_by.needs else None
    ids = {corpus_id for of_topic in references.values() for corpus_id in of_topic}
    library = ReferenceLibrary(work.dataset("documents"), embeddings, ids)
    pool = _read_examples(work.dataset("mindmaps")) if "examples" in made_by.needs else []
    outlines = _read_outlines(work, topics) if "outline" in made_by.needs else {}
    with threadpool_limits(1, user_api="blas"):  # many small products, which more threads only slow down
        yield partial(_answer, _Inputs(work.settings, made_by, references, library, pool, outlines))


def _references_of_qrels(work: Workspace[OrganizeSettings]) -> dict[int, list[int]]:
    """Relevant documents by topic, ascending by corpus_id."""
    return {topic: sorted(documents) for topic, documents in read_qrels(work.dataset("topics")).items()}


def _references_of_run(work: Workspace[OrganizeSettings], topics: Sequence[Topic]) -> dict[int, list[int]]:
    """The first documents of a run by topic, best first."""
    rows = pl.read_parquet(_run_for(work, topics).files(), columns=["topic_id", "corpus_id", "rank"])
    rows = rows.filter(pl.col("rank") <= work.settings.depth).sort("topic_id", "rank")
    return dict(rows.group_by("topic_id").agg("corpus_id").iter_rows())


def _read_examples(mindmaps: Dataset) -> list[Example]:
    rows = pl.read_parquet(mindmaps.files()).sort("topic_id")
    return [Example(*row) for row in rows.select(Example._fields).iter_rows()]


def _read_outlines(work: Workspace[OrganizeSettings], topics: Sequence[Topic]) -> dict[int, str]:
    """The outlines that the run's system wrote, by topic."""
    files = _run_for(work, topics).files(OUTLINES.name)
    return dict(pl.read_parquet(files).select("topic_id", "outline").iter_rows()) if files else {}


def _run_for(work: Workspace[OrganizeSettings], topics: Sequence[Topic]) -> Dataset:
    """The input `run`, which must have been made for all the topics."""
    run = work.dataset("run")
    answered = set(run.table(OUTCOMES.name, ["topic_id"])["topic_id"].to_pylist())
    if lacking := [topic.topic_id for topic in topics if topic.topic_id not in answered]:
        raise StageFailed(
            f"stage organize: the run was not made for {len(lacking)} of {len(topics)} topics (first: {lacking[0]}); "
            "take a run over all topics, or limit both to the same ones"
        )
    return run


def _answer(inputs: _Inputs, topic: Topic, asker: Asker | None) -> SubjectRows:
    settings = inputs.settings
    cited = inputs.references.get(topic.topic_id, [])
    references = inputs.library.references(cited)
    unread = len(cited) - len(references.ids)
    notes = {"references_not_read": unread} if unread else {}
    if references.ids or "references" not in inputs.builder.needs:
        examples = choose_examples(inputs.pool, topic, settings.seed, settings.examples)
        outline = inputs.outlines.get(topic.topic_id)
        built = organize_topic(inputs.builder, Material(topic, references, examples, settings.seed, asker, outline))
    elif settings.references == "oracle":
        return SubjectRows([], "no_references", notes)
    else:
        built = Built("empty", "the run has no document that can be read")
    row = TreeRow(
        tag=settings.tag,
        topic_id=topic.topic_id,
        outcome=built.outcome,
        note=built.note,
        fallback=built.fallback,
        references=len(references.ids),
        tree=built.tree,
        nodes=built.shape.nodes,
        depth=built.shape.depth,
    )
    return SubjectRows([row], FALLBACK if built.fallback and built.outcome == "scored" else built.outcome, notes)


def organize_topic(made_by: Builder, material: Material) -> Built:
    """Asks a builder; whatever goes wrong in it, or with its tree, is an outcome of this topic alone.

    Raises:
        TransientError: A service failed for now, which says nothing about the builder.
        MissingDependency: The builder cannot run on this machine.
        ModelError: The model that the builder asks cannot be used.
    """

    def ask() -> Built:
        made = made_by.build(material)
        if made.outcome not in get_args(Outcome):
            raise BadInput(f"the builder ended with outcome {made.outcome!r}; choose of {get_args(Outcome)}")
        if made.tree is None:
            return Built("empty" if made.outcome == "scored" else made.outcome, made.note, made.fallback)
        tree = load_tree(made.tree)
        return Built(made.outcome, made.note, made.fallback, dump_tree(tree), tree_shape(tree))

    found = attempt(f"topic {material.topic.topic_id}: builder {made_by.name}", ask, reraise=NOT_THE_BUILDER)
    return found if isinstance(found, Built) else Built(*found)
