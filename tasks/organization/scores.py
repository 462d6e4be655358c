"""The `tree_scores` stage: scores of built trees against gold mind-maps, by topic and as means with intervals."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field
from threadpoolctl import threadpool_limits

from schemas.errors import MissingDependency, StageFailed
from schemas.identifiers import Outcome
from schemas.mindmap import VIRTUAL_ROOT, Shape, Tree, parse_tree, tree_labels, tree_shape
from schemas.settings import DistanceReading, EncoderSettings, Settings
from schemas.tables.runs import OUTCOMES, OutcomeRow
from schemas.tables.tree_scores import (
    HEADING_MATCHES,
    TREE_SCORES,
    TREE_SUMMARIES,
    HeadingMatchRow,
    TreeScoreRow,
    TreeSummaryRow,
    distance_measure,
)
from tasks.index.encoder import Encoder
from tasks.llm.subjects import NOTE_LENGTH
from tasks.metrics.headings import (
    EntityExtractor,
    FlairEntityExtractor,
    RuleEntityExtractor,
    heading_entity_recall,
    heading_soft_recall,
)
from tasks.metrics.trees import SENSITIVITY, normalised_distance, threshold_sensitivity, tree_edit_distance
from tasks.organization.heading_vectors import LABEL_ENCODER, LabelVectors
from tasks.stats.intervals import RESAMPLES
from tasks.stats.summaries import Members, means, summarize
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_rows
from tasks.store.shard import Shard, in_shards
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

SHARD_TOPICS = 64
"""Topics of a shard: at most so many are scored again after a killed stage."""


class TreeScoreSettings(Settings):
    """How trees are scored."""

    encoder: EncoderSettings = Field(default=LABEL_ENCODER, description="What embeds headings.")
    threshold: float = Field(default=0.8, description="Headings more similar than this match in the tree distance.")
    distance: tuple[DistanceReading, ...] = Field(default=(), description="Other readings of the tree distance.")
    clip: bool = Field(default=False, description="Cut cosines to [0, 1] in heading soft recall.")
    entities: Literal["rules", "flair"] = Field(
        default="rules", description="Who finds entities: spelling rules alone (her_fallback), or FLAIR too (her)."
    )
    entity_model: str = Field(default=FlairEntityExtractor.model, description="FLAIR's tagger.")
    seed: int = Field(default=42, description="Of the bootstrap over topics.")
    resamples: int = Field(default=RESAMPLES, ge=100, description="Of the bootstrap over topics.")

    @property
    def mark(self) -> str:
        """What the name of the scores says beside that of the trees: `+above0.7` (unless 0.8), then `readings`."""
        usual = TreeScoreSettings.model_fields["threshold"].default
        return ("" if self.threshold == usual else f"+above{self.threshold:g}") + self.readings

    @property
    def readings(self) -> str:
        """The part of `mark` that is not the threshold: `+aligned`, `+free-ops`, `+ge`, `+clip`."""
        names = sorted(reading.replace("_", "-") for reading in set(self.distance))
        return "".join(f"+{name}" for name in [*names, *["clip"] * self.clip])

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The threshold and those of the sensitivity row, ascending."""
        return tuple(sorted({self.threshold, *SENSITIVITY}))


def choose_entities(wish: Literal["auto", "flair", "rules"], model: str) -> Literal["flair", "rules"]:
    """Returns who finds entities: for `auto`, FLAIR where it and the model are on this machine."""
    if wish == "auto":
        return "flair" if FlairEntityExtractor(model).is_at_hand() else "rules"
    return wish


class _Pair(NamedTuple):
    """A topic's trees; `built` is None unless the builder's outcome is `scored`."""

    topic_id: int
    gold: Tree
    built: Tree | None
    outcome: Outcome
    note: str | None
    fallback: bool


class HeadingMatch(NamedTuple):
    """A heading of one tree (`side`: `gold` or `built`) with its most similar heading of the other tree."""

    side: str
    label: str
    match: str
    similarity: float


class TreeScores(NamedTuple):
    """Values of one pair of trees by measure, and their matching headings."""

    values: dict[str, float | None]
    matches: list[HeadingMatch]


@stage("tree_scores", version=2, settings=TreeScoreSettings, after="organize")
def tree_scores(work: Workspace[TreeScoreSettings]) -> None:
    """Writes TREE_SCORES and, as side tables, TREE_SUMMARIES, HEADING_MATCHES and OUTCOMES; a shard holds 64 topics.

    Inputs: `trees` (of stage `organize`), `mindmaps`.

    A topic without a tree has recalls of 0 and a distance of the gold map's size, the cost of inserting all its nodes;
    it is left out of `mean_evaluated`. A topic whose gold map has no entity has no entity recall; `her_no_gold` and
    `her_fallback_no_gold` give the share of such topics. If a topic's labels cannot be embedded or its trees cannot be
    compared, that topic alone has the outcome `failed`.

    Raises:
        MissingDependency: The encoder or FLAIR is not installed.
    """
    settings, trees = work.settings, work.dataset("trees")
    tag = trees.manifest.tag + settings.mark
    pairs = _pairs(trees, work.dataset("mindmaps"))
    groups = in_shards(pairs, SHARD_TOPICS)
    scorer: TreeScorer | None = None
    for shard in work.pending([*groups, "summaries"]):
        with shard:
            if shard.name == "summaries":
                _write_summaries(shard, work.folder, list(groups), tag, settings)
                continue
            scorer = scorer or _open_scorer(work)
            _score_group(shard, groups[shard.name], scorer, tag)


class TreeScorer:
    """Scores pairs of trees with the same settings.

    Args:
        vectors: Embeds labels as unit vectors.
        settings: Threshold, readings of the tree distance, clipping, and how entities are found.
    """

    def __init__(self, vectors: LabelVectors, settings: TreeScoreSettings) -> None:
        self.vectors = vectors
        self._settings = settings
        self._extractors: list[EntityExtractor] = [RuleEntityExtractor()]
        if settings.entities == "flair":
            self._extractors.append(FlairEntityExtractor(settings.entity_model))

    @property
    def encoder(self) -> str:
        """Name of the encoder."""
        return self._settings.encoder.model

    def score(self, gold: Tree, built: Tree | None) -> TreeScores:
        """Returns every measure of a built tree.

        Args:
            gold: Canonical, of one node or more.
            built: Canonical; None scores like a tree without nodes.

        Raises:
            BadInput: Embeddings that are not finite, or trees too large to compare.
            MissingDependency: FLAIR is not installed.
        """
        golden = tree_labels(gold)
        labels = tree_labels(built) if built else []
        values = self._entities(golden, labels)
        similarity = np.zeros((len(golden), 0))
        values["hsr"] = 0.0
        if labels:
            similarity = self.vectors.of(golden).astype(np.float64) @ self.vectors.of(labels).astype(np.float64).T
            values["hsr"] = heading_soft_recall(golden, labels, self.vectors.of, self._settings.clip)
        values |= self._distances(gold, built, similarity)
        return TreeScores(values, list(_matches(golden, labels, similarity, self._settings.threshold)))

    def _entities(self, golden: Sequence[str], labels: Sequence[str]) -> dict[str, float | None]:
        values: dict[str, float | None] = {}
        for extract in self._extractors:
            entities = extract(golden)
            values[extract.metric] = heading_entity_recall(entities, extract(labels)) if entities else None
            values[f"{extract.metric}_no_gold"] = float(not entities)
        return values

    def _distances(self, gold: Tree, built: Tree | None, similarity: Floats) -> dict[str, float | None]:
        rule, size = self._settings, tree_shape(gold)
        nothing = Tree(label=VIRTUAL_ROOT, children=[])
        other = built or nothing
        semantic = threshold_sensitivity(
            gold,
            other,
            tree_labels(gold),
            tree_labels(other),
            similarity,
            rule.thresholds,
            inclusive="ge" in rule.distance,
            free_ops="free_ops" in rule.distance,
            aligned="aligned" in rule.distance,
        )
        shape = tree_shape(built) if built else Shape(0, 0)
        return {
            "ted": tree_edit_distance(gold, other),
            **{distance_measure(threshold): distance for threshold, distance in semantic.items()},
            "tsd_normalised": normalised_distance(semantic[rule.threshold], gold, other),
            "gold_nodes": size.nodes,
            "gold_depth": size.depth,
            "nodes": shape.nodes,
            "depth": shape.depth,
        }


def _open_scorer(work: Workspace[TreeScoreSettings]) -> TreeScorer:
    resources = work.resources
    encoder = Encoder(work.settings.encoder, resources.device, resources.batch_size)
    return TreeScorer(LabelVectors(encoder.encode_short), work.settings)


def _pairs(trees: Dataset, mindmaps: Dataset) -> list[_Pair]:
    """Returns every organized topic with its gold map, ascending by topic_id."""
    gold = {row["topic_id"]: row["tree"] for row in pl.read_parquet(mindmaps.files()).iter_rows(named=True)}
    built = pl.read_parquet(trees.files()).sort("topic_id")
    if lacking := set(built["topic_id"]) - set(gold):
        raise StageFailed(
            f"stage tree_scores: {len(lacking)} topics of the trees have no mind-map (first: {min(lacking)}); score "
            "the trees with the mind-maps that they were built for"
        )
    return [
        _Pair(
            row["topic_id"],
            parse_tree(gold[row["topic_id"]]),
            parse_tree(row["tree"]) if row["outcome"] == "scored" else None,
            *(row[name] for name in ("outcome", "note", "fallback")),
        )
        for row in built.iter_rows(named=True)
    ]


def _score_group(shard: Shard, pairs: Sequence[_Pair], scorer: TreeScorer, tag: str) -> None:
    found = [tree for pair in pairs if pair.built for tree in (pair.gold, pair.built)]
    scorer.vectors.prepare(label for tree in found for label in tree_labels(tree))
    rows: list[TreeScoreRow] = []
    matches: list[HeadingMatchRow] = []
    outcomes: list[OutcomeRow] = []
    with threadpool_limits(1, user_api="blas"):  # many small products: several threads would only slow each other down
        for pair in pairs:
            scored, outcome, note = _score_pair(pair, scorer)
            for measure, value in sorted(scored.values.items()):
                encoder = scorer.encoder if measure.startswith(("hsr", "tsd_")) else None
                rows.append(TreeScoreRow(tag, pair.topic_id, measure, value, encoder))
            matches += [HeadingMatchRow(tag, pair.topic_id, *match) for match in scored.matches]
            outcomes.append(OutcomeRow(pair.topic_id, outcome, note, pair.fallback))
            shard.counts.read += 1
            shard.counts.kept += outcome == "scored"
            shard.counts.failed += outcome == "failed"
    write_rows(shard.file(f"part-{shard.name}.parquet"), TREE_SCORES, rows)
    write_rows(shard.file(f"{HEADING_MATCHES.name}-{shard.name}.parquet"), HEADING_MATCHES, matches)
    write_rows(shard.file(f"{OUTCOMES.name}-{shard.name}.parquet"), OUTCOMES, outcomes)


def _score_pair(pair: _Pair, scorer: TreeScorer) -> tuple[TreeScores, Outcome, str | None]:
    try:
        return scorer.score(pair.gold, pair.built), pair.outcome, pair.note
    except MissingDependency:
        raise
    except Exception as error:
        log.warning("topic %d: its tree cannot be scored", pair.topic_id, exc_info=True)
        return scorer.score(pair.gold, None), "failed", f"{type(error).__name__}: {error}"[:NOTE_LENGTH]


def _matches(
    golden: Sequence[str], labels: Sequence[str], similarity: Floats, threshold: float
) -> Iterator[HeadingMatch]:
    if not golden or not labels:
        return
    equal = np.array(golden, object)[:, None] == np.array(labels, object)[None, :]
    closeness = np.where(equal, np.inf, similarity)
    for side, own, other, rows in (("built", labels, golden, closeness.T), ("gold", golden, labels, closeness)):
        best: list[int] = rows.argmax(axis=1).tolist()
        for label, place, row in sorted(zip(own, best, rows, strict=True), key=lambda item: item[0]):
            if row[place] > threshold:
                yield HeadingMatch(side, label, other[place], 1.0 if np.isinf(row[place]) else float(row[place]))


def _write_summaries(shard: Shard, folder: Path, names: Sequence[str], tag: str, settings: TreeScoreSettings) -> None:
    rows: list[TreeSummaryRow] = []
    if names:
        scores = pl.read_parquet([folder / f"part-{name}.parquet" for name in names])
        outcomes = pl.read_parquet([folder / f"{OUTCOMES.name}-{name}.parquet" for name in names])
        covered = outcomes.sort("topic_id")["outcome"].to_numpy() == "scored"
        rows = sorted(_summaries(scores, covered, tag, settings), key=lambda row: row.measure)
    write_rows(shard.file(f"{TREE_SUMMARIES.name}-00000.parquet"), TREE_SUMMARIES, rows)


def _summaries(
    scores: pl.DataFrame, covered: Members, tag: str, settings: TreeScoreSettings
) -> Iterator[TreeSummaryRow]:
    """Yields a row for each measure over the topics for which it exists."""
    encoders = dict(scores.select("measure", "encoder").unique().iter_rows())
    wide = scores.pivot(on="measure", index="topic_id", values="value").sort("topic_id").drop("topic_id")
    values = wide.to_numpy(order="fortran").astype(np.float64)
    known = ~np.isnan(values)
    evaluated = means(np.asfortranarray(values[covered]))
    summaries = summarize(values, settings.seed, settings.resamples)
    for place, (measure, found) in enumerate(zip(wide.columns, summaries, strict=True)):
        yield TreeSummaryRow(
            tag,
            measure,
            encoders[measure],
            topics=found.valued,
            covered=int((known[:, place] & covered).sum()),
            mean=found.mean,
            low=found.low,
            high=found.high,
            mean_evaluated=evaluated[place],
        )
