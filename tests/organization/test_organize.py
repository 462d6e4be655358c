"""The stages `organize` and `tree_scores`: what a builder gets, what fails alone, and means by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from schemas.errors import BadInput, MissingDependency, StageFailed, TransientError
from schemas.manifest import Ref
from schemas.mindmap import Tree, dump_tree, load_any, load_tree, parse_tree, tree_labels, tree_shape
from schemas.settings import EncoderSettings
from schemas.tables.documents import DOCUMENTS
from schemas.tables.mindmaps import MINDMAPS
from schemas.tables.qrels import QRELS
from schemas.tables.runs import OUTCOMES, RUNS
from schemas.tables.topics import TOPICS
from tasks.index.encoder import Encoder
from tasks.metrics.trees import SENSITIVITY, tree_edit_distance
from tasks.organization import builder as builders
from tasks.organization.builder import Builder, Material, Organized, lone_node
from tasks.organization.heading_vectors import LabelVectors
from tasks.organization.organize import OrganizeSettings, organize
from tasks.organization.scores import TreeScorer, TreeScoreSettings, tree_scores
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_embeddings, save_tiny_model

N_TOPICS = 20
GOLD = {
    topic: load_any({f"Map {topic}": {"Owls": {"Barn owls": None}, "Ducks": None}}) for topic in range(1, N_TOPICS + 1)
}
CITED = {topic: [100 + topic, 150, 151] for topic in GOLD}
UNREAD = 151
"""A document without embedding."""

Register = Callable[..., None]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path / "root")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> EncoderSettings:
    return EncoderSettings(model=str(save_tiny_model(tmp_path_factory.mktemp("tiny"), seed=0)))


@pytest.fixture
def inputs(corpus: Corpus) -> dict[str, Ref]:
    """Topics 1 to 20 with maps; 21 has none, 22 is not evaluated, and the one paper of 23 has no embedding."""
    titles = {topic: f"A Survey of {topic}" for topic in range(1, 24)}
    topics = [{"topic_id": t, "title": title, "outcome": "kept"} for t, title in titles.items()]
    topics[21]["outcome"] = "no_date"
    cited = CITED | {21: [150], 22: [150], 23: [UNREAD]}
    qrels = [{"topic_id": t, "corpus_id": d, "relevance": 1} for t, ds in cited.items() for d in ds]
    maps = GOLD | {22: GOLD[1], 23: GOLD[1]}
    rows = [
        {"topic_id": t, "title": titles[t], "tree": dump_tree(tree), **tree_shape(tree)._asdict()}
        for t, tree in maps.items()
    ]
    ids = [*range(101, 101 + N_TOPICS), 150, UNREAD]
    texts = [{"corpus_id": i, "title": f"Owl {i}", "abstract": f"Owls of island {i}."} for i in ids]
    vectors = {i: np.array([1.0, i % 7, i % 3]) for i in ids if i != UNREAD}
    return {
        "topics": corpus.given("topics", {TOPICS: topics, QRELS: qrels}),
        "mindmaps": corpus.given("mindmaps", {MINDMAPS: rows}),
        "documents": corpus.given("documents", {DOCUMENTS: texts}, buckets=3),
        "embeddings": give_embeddings(corpus, vectors),
    }


def chosen(builder: str, **changes: object) -> OrganizeSettings:
    return OrganizeSettings.model_validate({"builder": builder, "builder_version": 1, "tag": builder} | changes)


def build(corpus: Corpus, inputs: dict[str, Ref], builder: str, **changes: object) -> Dataset:
    return corpus.build(organize, chosen(builder, **changes), **inputs)


def rows_of(dataset: Dataset, prefix: str = "part") -> dict[int, dict]:
    return {row["topic_id"]: row for row in pl.read_parquet(dataset.files(prefix)).iter_rows(named=True)}


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Makes a function the builder `probe` for one test."""

    def install(build_tree: builders.BuildTree, *needs: builders.Need) -> None:
        probe = Builder("probe", "For a test.", build_tree, frozenset(needs), 1)
        monkeypatch.setitem(builders._registry._things, "probe", probe)

    return install


def test_a_builder_gets_the_references_that_can_be_read(
    corpus: Corpus, inputs: dict[str, Ref], register: Register
) -> None:
    seen: dict[int, Material] = {}

    def look(material: Material) -> Organized:
        seen[material.topic.topic_id] = material
        return Organized(lone_node(material.topic))

    register(look, "references", "vectors", "examples")
    dataset = build(corpus, inputs, "probe")
    assert sorted(seen) == list(GOLD)
    references = seen[5].references
    assert references.ids == (105, 150) and references.titles == ("Owl 105", "Owl 150")
    assert references.abstracts == ("Owls of island 105.", "Owls of island 150.")
    expected = np.array([[1, 0, 0], [1, 150 % 7, 0]]) / np.linalg.norm([[1, 0, 0], [1, 150 % 7, 0]], axis=1)[:, None]
    assert references.vectors == pytest.approx(expected, abs=1e-3)
    assert np.linalg.norm(references.vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert all(len(m.examples) == 3 and t not in {e.topic_id for e in m.examples} for t, m in seen.items())
    counts = dataset.manifest.counts
    assert (counts.read, counts.kept, counts.dropped, counts.failed) == (21, 20, {"no_references": 1}, 0)
    assert counts.notes == {"references_not_read": 21}
    assert rows_of(dataset)[5]["references"] == 2


def test_without_need_nothing_is_read(corpus: Corpus, inputs: dict[str, Ref]) -> None:
    del inputs["embeddings"]
    dataset = build(corpus, inputs, "single")
    found = rows_of(dataset)
    assert sorted(found) == [*GOLD, 23]
    assert found[5]["references"] == 0 and (found[5]["nodes"], found[5]["depth"]) == (1, 1)
    assert tree_labels(parse_tree(found[5]["tree"])) == ["A Survey of 5"]
    with pytest.raises(StageFailed, match="clustering lacks embeddings"):
        build(corpus, inputs, "clustering")


def test_end_to_end_takes_the_top_of_a_run(corpus: Corpus, inputs: dict[str, Ref], register: Register) -> None:
    found: dict[int, tuple[int, ...]] = {}

    def look(material: Material) -> Organized:
        found[material.topic.topic_id] = material.references.ids
        return Organized(lone_node(material.topic))

    register(look, "references")
    hits = [(1, 150, 1), (1, 103, 2), (1, 102, 3), (2, 104, 1)]
    ranked = [{"topic_id": t, "corpus_id": d, "rank": r, "score": -r, "tag": "x"} for t, d, r in hits]
    answered = [{"topic_id": t, "outcome": "scored"} for t in (1, 2, 3)]
    inputs["run"] = corpus.given("run", {RUNS: ranked, OUTCOMES: answered})
    dataset = build(corpus, inputs, "probe", references="run", depth=2, limit_topics=3)
    assert found == {1: (150, 103), 2: (104,)}
    assert {t: row["outcome"] for t, row in rows_of(dataset).items()} == {1: "scored", 2: "scored", 3: "empty"}
    with pytest.raises(StageFailed, match=r"not made for 18 of 21 topics \(first: 4\)"):
        build(corpus, inputs, "probe", references="run")
    del inputs["run"]
    with pytest.raises(StageFailed, match="lacks run"):
        build(corpus, inputs, "probe", references="run")


def test_what_goes_wrong_fails_its_topic_alone(corpus: Corpus, inputs: dict[str, Ref], register: Register) -> None:
    deep = Tree(label="x", children=[])
    for _ in range(10_000):
        deep = Tree(label="x", children=[deep])
    answers = {
        1: lambda: 1 / 0,
        2: lambda: Organized({"label": " ", "children": []}),
        3: lambda: Organized({"children": []}),  # pyright: ignore[reportArgumentType]
        4: lambda: Organized(deep),
        5: lambda: Organized(lone_node(topic_of(5)), outcome="splendid"),  # pyright: ignore[reportArgumentType]
        6: lambda: Organized(None),
        7: lambda: Organized(None, "over_budget", "no money left"),
        8: lambda: Organized(load_tree(Tree(label="y" * 100_000, children=[])), fallback=True),
    }

    def topic_of(number: int):
        return builders.Topic(number, "t", None)  # pyright: ignore[reportArgumentType]

    def probe(material: Material) -> Organized:
        return answers.get(material.topic.topic_id, lambda: Organized(lone_node(material.topic)))()

    register(probe)
    dataset = build(corpus, inputs, "probe")
    found = rows_of(dataset)
    failed = {t: row["note"] for t, row in found.items() if row["outcome"] == "failed"}
    assert sorted(failed) == [1, 2, 3, 4, 5]
    assert "ZeroDivisionError" in failed[1] and "no node has a label" in failed[2] and "levels" in failed[4]
    assert (found[6]["outcome"], found[7]["outcome"], found[7]["note"]) == ("empty", "over_budget", "no money left")
    assert found[8]["outcome"] == "scored" and found[8]["fallback"] and not found[9]["fallback"]
    assert all(row["tree"] is None and row["nodes"] == 0 for row in found.values() if row["outcome"] != "scored")
    counts = dataset.manifest.counts
    assert (counts.kept, counts.failed, counts.dropped) == (13, 5, {"empty": 1, "over_budget": 1, "fallback": 1})


@pytest.mark.parametrize("error", [TransientError("later"), MissingDependency("no model")])
def test_a_failure_that_says_nothing_of_the_builder_stops_and_resumes(
    corpus: Corpus, inputs: dict[str, Ref], register: Register, error: Exception
) -> None:
    asked: list[int] = []
    broken = True

    def probe(material: Material) -> Organized:
        asked.append(material.topic.topic_id)
        if broken and material.topic.topic_id == 18:
            raise error
        return Organized(lone_node(material.topic))

    register(probe)
    with pytest.raises(type(error)):
        build(corpus, inputs, "probe")
    broken, asked[:] = False, []
    assert len(rows_of(build(corpus, inputs, "probe"))) == 21
    assert asked == [17, 18, 19, 20, 23]  # the first shard of 16 was kept


def test_another_version_of_a_builder_is_refused(corpus: Corpus, inputs: dict[str, Ref]) -> None:
    with pytest.raises(StageFailed, match="has version 1, the settings say 2"):
        build(corpus, inputs, "single", builder_version=2)


DIRECTIONS = {"a": 0, "b": 10, "c": 60, "d": 90, "e": 120}


def angles(labels: Sequence[str]) -> np.ndarray:
    radians = np.radians([DIRECTIONS[label] for label in labels])
    return np.column_stack([np.cos(radians), np.sin(radians)]).astype(np.float32)


def scorer(encode=angles, **changes: object) -> TreeScorer:
    return TreeScorer(LabelVectors(encode), TreeScoreSettings.model_validate(changes))


def test_scores_of_a_pair_by_hand() -> None:
    """`b` lies 10 degrees from `a`, `c` and `e` 30 degrees (cosine 0.866) from `d`; all else is further apart."""
    gold, built = load_any({"a": {"d": None}}), load_any({"b": {"c": {"e": None}}})
    found = scorer().score(gold, built)
    assert [found.values[f"tsd_{t}"] for t in SENSITIVITY] == [1, 1, 1, 1, 2]
    assert (found.values["ted"], found.values["tsd_normalised"]) == (3, 1 / 5)
    shapes = {name: found.values[name] for name in ("gold_nodes", "gold_depth", "nodes", "depth")}
    assert shapes == {"gold_nodes": 2, "gold_depth": 2, "nodes": 3, "depth": 3}
    cosine = np.cos(np.radians(np.subtract.outer([0, 90, 10, 60, 120], [0, 90, 10, 60, 120])))
    golden, predicted, union = (np.sum(1 / cosine[np.ix_(s, s)].sum(axis=1)) for s in ([0, 1], [2, 3, 4], range(5)))
    assert found.values["hsr"] == pytest.approx((golden + predicted - union) / golden, abs=1e-5)
    assert [(match.side, match.label, match.match) for match in found.matches] == [
        ("built", "b", "a"),
        ("built", "c", "d"),
        ("built", "e", "d"),
        ("gold", "a", "b"),
        ("gold", "d", "c"),
    ]
    assert found.matches[0].similarity == pytest.approx(np.cos(np.radians(10)))


def test_a_missing_tree_scores_as_nothing() -> None:
    found = scorer(encode=lambda labels: 1 / 0).score(load_any({"BERT": {"GPT-4": None}, "x": None}), None)
    expected = {"hsr": 0, "her_fallback": 0, "ted": 3, "tsd_0.8": 3, "tsd_normalised": 1, "nodes": 0, "depth": 0}
    assert {name: found.values[name] for name in expected} == expected
    assert found.matches == []


def test_without_gold_entity_there_is_no_entity_recall() -> None:
    gold, built = load_any({"a": {"b": None}}), load_any({"a": None})
    for tree in (built, None):
        values = scorer().score(gold, tree).values
        assert (values["her_fallback"], values["her_fallback_no_gold"]) == (None, 1)
    named = scorer(encode=lambda labels: np.ones((len(labels), 2), np.float32)).score(load_any({"BERT": None}), built)
    assert (named.values["her_fallback"], named.values["her_fallback_no_gold"]) == (0, 0)


READINGS = [
    ("ge", {"x": None}, {"y": None}, 1, 0),
    ("free_ops", {"x": {"y": None}}, {"x": {"y": {"y": None}}}, 1, 0),
    ("aligned", {"x": {"y": None, "z": None}}, {"x": {"z": None, "y": None}}, 2, 0),
]


@pytest.mark.parametrize(("reading", "gold", "built", "usual", "other"), READINGS)
def test_other_readings_of_the_distance_are_reached_by_name(
    reading: str, gold: object, built: object, usual: int, other: int
) -> None:
    """The labels' cosines are 0, which is the threshold."""

    def right_angles(labels: Sequence[str]) -> np.ndarray:
        return np.eye(3, dtype=np.float32)[["xyz".index(label) for label in labels]]

    pair = load_any(gold), load_any(built)
    for distance, expected in ((), usual), ((reading,), other):
        chosen = scorer(right_angles, threshold=0.0, distance=distance)
        assert chosen.score(*pair).values["tsd_0"] == expected
    assert TreeScoreSettings(distance=(reading,), clip=True).mark == f"+{reading.replace('_', '-')}+clip"


def test_another_threshold_has_its_own_name() -> None:
    values = scorer(threshold=0.99).score(load_any({"a": None}), load_any({"b": None})).values
    assert (values["tsd_0.99"], values["tsd_0.9"], values["tsd_normalised"]) == (1, 0, 0.5)


@pytest.mark.parametrize(
    "bad",
    [
        lambda labels: np.full((len(labels), 2), np.nan, np.float32),
        lambda labels: np.zeros((len(labels), 2), np.float32),
        lambda labels: np.ones((len(labels) + 1, 2), np.float32),
        lambda labels: np.ones(len(labels), np.float32),
    ],
)
def test_bad_embeddings_are_refused(bad: Callable[[Sequence[str]], np.ndarray]) -> None:
    with pytest.raises(BadInput):
        scorer(encode=bad).score(load_any({"a": None}), load_any({"b": None}))


def test_each_label_is_embedded_once() -> None:
    asked: list[str] = []

    def count(labels: Sequence[str]) -> np.ndarray:
        asked.extend(labels)
        return angles(labels)

    vectors = LabelVectors(count)
    vectors.prepare(["a", "b", "a"])
    assert vectors.of(["b", "c", "b"]) == pytest.approx(angles(["b", "c", "b"]))
    assert vectors.of([]).shape[0] == 0
    assert asked == ["a", "b", "c"]


def score(corpus: Corpus, trees: Dataset, inputs: dict[str, Ref], encoder: EncoderSettings) -> Dataset:
    settings = TreeScoreSettings(encoder=encoder, resamples=200)
    return corpus.build(tree_scores, settings, trees=trees.ref, mindmaps=inputs["mindmaps"])


def test_means_count_every_topic_and_coverage_stands_beside(
    corpus: Corpus, inputs: dict[str, Ref], register: Register, encoder: EncoderSettings
) -> None:
    def probe(material: Material) -> Organized:
        topic = material.topic.topic_id
        return Organized(None if topic == 2 else GOLD[1])

    register(probe)
    trees = build(corpus, inputs, "probe", limit_topics=4)
    dataset = score(corpus, trees, inputs, encoder)
    scores = pl.read_parquet(dataset.files())
    distances = dict(scores.filter(measure="ted").select("topic_id", "value").iter_rows())
    assert distances == {t: 4 if t == 2 else tree_edit_distance(GOLD[t], GOLD[1]) for t in (1, 2, 3, 4)}
    named = scores.filter(pl.col("measure").str.contains("^(hsr|tsd_.*)$"))
    assert set(named["encoder"]) == {encoder.model} and scores.filter(measure="ted")["encoder"].null_count() == 4
    row = pl.read_parquet(dataset.files("tree_summaries")).row(by_predicate=pl.col("measure") == "ted", named=True)
    assert (row["topics"], row["covered"], row["mean"], row["mean_evaluated"]) == (4, 3, 6 / 4, 2 / 3)
    assert row["low"] <= row["mean"] <= row["high"]
    assert {t: r["outcome"] for t, r in rows_of(dataset, "outcomes").items()} == {
        1: "scored", 2: "empty", 3: "scored", 4: "scored",
    }  # fmt: skip
    hsr = dict(scores.filter(measure="hsr").select("topic_id", "value").iter_rows())
    assert hsr[1] == pytest.approx(1) and hsr[2] == 0


def test_an_encoder_that_fails_on_a_label_fails_the_topics_that_have_it(
    corpus: Corpus, inputs: dict[str, Ref], encoder: EncoderSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Encoder.encode

    def fragile(self: Encoder, texts: Sequence[str]) -> np.ndarray:
        if "Map 3" in texts:
            raise RuntimeError("device lost")
        return encode(self, texts)

    monkeypatch.setattr(Encoder, "encode", fragile)
    dataset = score(corpus, build(corpus, inputs, "single", limit_topics=5), inputs, encoder)
    outcomes = rows_of(dataset, "outcomes")
    assert {t for t, row in outcomes.items() if row["outcome"] == "failed"} == {3}
    assert "device lost" in outcomes[3]["note"]
    assert dataset.manifest.counts.failed == 1
    summary = pl.read_parquet(dataset.files("tree_summaries")).row(by_predicate=pl.col("measure") == "hsr", named=True)
    assert (summary["topics"], summary["covered"]) == (5, 4)


def test_no_topic_at_all_gives_empty_tables(corpus: Corpus, inputs: dict[str, Ref], encoder: EncoderSettings) -> None:
    inputs["mindmaps"] = corpus.given("mindmaps", {MINDMAPS: []})
    trees = build(corpus, inputs, "themes")
    assert rows_of(trees) == {}
    dataset = score(corpus, trees, inputs, encoder)
    assert pl.read_parquet(dataset.files("tree_summaries")).is_empty()


def test_trees_of_other_mindmaps_are_refused(corpus: Corpus, inputs: dict[str, Ref], encoder: EncoderSettings) -> None:
    trees = build(corpus, inputs, "single")
    inputs["mindmaps"] = corpus.given("mindmaps", {MINDMAPS: []})
    with pytest.raises(StageFailed, match="have no mind-map"):
        score(corpus, trees, inputs, encoder)
