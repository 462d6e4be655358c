"""Candidates by title, verdicts by a selector, and a selector's score against labels."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from schemas.errors import BadInput, UsageError
from schemas.tables.papers import PAPERS
from tasks.corpus import survey_selector
from tasks.corpus.selector_scoring import score_selector
from tasks.corpus.survey_selector import Candidate, ModelConnection, Verdict, find_selector
from tasks.corpus.survey_selectors.rules import RuleSelector
from tasks.corpus.surveys import SurveySettings, surveys
from tests.corpus.conftest import Corpus

LITERATURE = [
    ("A Survey of Glacier Mass Balance Models", None),
    ("Optical Tweezers: A Survey", None),
    ("Soil Carbon Sequestration: A Comprehensive Survey", None),
    ("Enzyme Immobilisation—Survey and Future Directions", None),
    ("Taxonomy and Survey of Landslide Early Warning", None),
    ("Wave Energy Converters: Survey, Taxonomy, and Open Problems", None),
    ("Where Does the Water Go? A Survey on Evapotranspiration Estimation", None),
    ("Surveying Seismic Inversion Methods", "We review existing methods for seismic inversion and group them."),
    ("Bridge Inspection Robots Survey", "This article reviews recent work on robots that inspect bridges."),
    (
        "Machine Learning for Galaxy Morphology: A Survey",
        "Galaxies come in many shapes. This survey reviews existing approaches that classify them, from decision trees "
        "to deep networks, gives a taxonomy of the literature, and lists open challenges.",
    ),
    (
        "A Survey on Questionnaire Translation",
        "Questionnaires must mean the same in every language. We survey the literature on translation methods, "
        "classify existing approaches, and discuss open research questions.",
    ),
    (
        "Fatigue in Nurses: A Survey of Reviews",
        "We systematically review 48 studies on fatigue published since 1990, summarize existing interventions, and "
        "point out future research directions.",
    ),
]

OTHER = [
    ("Attitudes of Midwives Towards Water Birth: A Nationwide Survey", None),
    ("Prevalence of Heartworm in Stray Dogs: A Cross-Sectional Survey", None),
    ("Hand Hygiene Knowledge Among Dental Students: Results of an Online Survey", None),
    ("A Survey of Pharmacists on Generic Substitution", None),
    ("The Deep Infrared Sky Survey: Third Data Release", None),
    ("Photometric Redshifts for Wide-Field Galaxy Surveys", None),
    ("An Aerial Survey of Harbour Seals in a Northern Fjord", None),
    ("Nonresponse Bias in Household Surveys", None),
    ("Imputing Missing Survey Data with Trees", None),
    ("Surveying Farmers About Drought", "We asked 212 farmers in two valleys how they cope with drought."),
    ("Survey Propagation on Random Hypergraphs", None),
    ("Automatically Generating Literature Surveys with Language Models", None),
    ("Findings of a Survey on Reading Habits", None),
    (
        "Sleep and Shift Work: A Survey",
        "Objective: to see how shift work bears on sleep. Methods: a questionnaire was sent to 400 nurses of three "
        "hospitals. Results: 271 respondents (68%) reported poor sleep (p < 0.01).",
    ),
    (
        "A Survey of Lead in Garden Soils",
        "Samples were collected from 120 gardens of a mining town. Concentrations ranged from 14 to 2,300 mg/kg.",
    ),
    (
        "Remote Work After the Flood: A Survey",
        "We conducted an online survey with 1,020 participants in five towns and interviewed twelve managers.",
    ),
]


@pytest.mark.parametrize(("title", "abstract"), LITERATURE)
def test_rules_accept_literature_surveys(title: str, abstract: str | None):
    (verdict,) = find_selector("rules").select([Candidate(1, title, abstract)])
    assert verdict.accepted, verdict.reason


@pytest.mark.parametrize(("title", "abstract"), OTHER)
def test_rules_reject_other_surveys(title: str, abstract: str | None):
    (verdict,) = find_selector("rules").select([Candidate(1, title, abstract)])
    assert not verdict.accepted, verdict.reason


def test_the_reason_names_the_strongest_cues():
    verdicts = find_selector("rules").select([Candidate(1, "Rain: A Survey", None), Candidate(2, "Sky Surveys", None)])
    assert [verdict.reason for verdict in verdicts] == [
        "title: names itself a survey (+4)",
        "title: sky survey; title: surveys in the plural; title: does not call the paper a survey (-12)",
    ]


def test_title_filter(corpus: Corpus):
    titles = ["A SURVEY of rain", "Surveying snow", "Hail: a review", None, "Two surveys of fog"]
    papers = corpus.given("papers", {PAPERS: [{"corpus_id": i, "title": t} for i, t in enumerate(titles)]}, buckets=3)
    loose = corpus.build(surveys, papers=papers)
    strict = corpus.build(surveys, SurveySettings(word="whole_word"), papers=papers)
    assert loose.table()["corpus_id"].to_pylist() == [0, 1, 4]
    assert strict.table()["corpus_id"].to_pylist() == [0]
    counts = loose.manifest.counts
    assert (counts.read, counts.kept, counts.dropped) == (5, 1, {"title": 2, "rejected": 2})


class Oracle:
    """Accepts what has an abstract, as a selector with a model would: it says which and how it was asked."""

    name = "oracle"
    prompt_id = None

    def select(self, candidates: Sequence[Candidate], connection: ModelConnection | None = None) -> list[Verdict]:
        return [Verdict(c.abstract is not None, f"saw {c.title}", "model-1", "prompt-2") for c in candidates]


def test_another_selector_can_be_registered(corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(survey_selector._registry._things, "oracle", Oracle)
    rows = [{"corpus_id": 1, "title": "Survey A", "abstract": "x"}, {"corpus_id": 2, "title": "Survey B"}]
    papers = corpus.given("papers", {PAPERS: rows})
    found = corpus.build(surveys, SurveySettings(selector="oracle"), papers=papers).table().to_pylist()
    assert [(row["corpus_id"], row["accepted"], row["reason"]) for row in found] == [
        (1, True, "saw Survey A"),
        (2, False, "saw Survey B"),
    ]
    assert {(row["selector"], row["model"], row["prompt_id"]) for row in found} == {("oracle", "model-1", "prompt-2")}


def test_reusing_verdicts_gives_the_same_dataset_as_a_first_build(
    corpus: Corpus, new_corpus: Callable[[], Corpus], monkeypatch: pytest.MonkeyPatch
):
    seen: list[int] = []

    class Watched(RuleSelector):
        def select(self, candidates: Sequence[Candidate], connection: ModelConnection | None = None) -> list[Verdict]:
            seen.extend(candidate.corpus_id for candidate in candidates)
            return super().select(candidates, connection)

    monkeypatch.setitem(survey_selector._registry._things, "rules", Watched)
    week = [{"corpus_id": i, "title": f"Survey {i}", "abstract": "We review." if i % 3 else None} for i in range(1200)]
    corpus.build(surveys, papers=corpus.given("papers", {PAPERS: week}, buckets=3))
    assert seen == list(range(1200))
    seen.clear()
    rekeyed, retold, retitled = week[5] | {"corpus_id": 5000}, week[6] | {"abstract": ""}, week[7] | {"title": "Survey"}
    emptied = week[8] | {"abstract": None}
    after = [*week[:5], retold, retitled, emptied, *week[9:], {"corpus_id": 4000, "title": "A new survey"}, rekeyed]
    kept = corpus.build(surveys, papers=corpus.given("papers", {PAPERS: after}, buckets=3))
    assert seen == [7, 8, 4000]  # 6 had no abstract before either
    assert kept.manifest.counts.notes == {"judged": 3, "known": 1198}
    fresh = new_corpus()
    assert kept.ref.digest == fresh.build(surveys, papers=fresh.given("papers", {PAPERS: after}, buckets=3)).ref.digest
    assert seen[3:] == kept.table()["corpus_id"].to_pylist()


def test_unknown_selector(corpus: Corpus):
    papers = corpus.given("papers", {PAPERS: []})
    with pytest.raises(UsageError, match=r"no survey selector is named 'crystal_ball'; there are: .*rules"):
        corpus.build(surveys, SurveySettings(selector="crystal_ball"), papers=papers)


def write_labels(path: Path, labels: dict[int, str]) -> Path:
    path.write_bytes(b"\n".join(orjson.dumps({"corpusid": i, "title": "-", "label": v}) for i, v in labels.items()))
    return path


def test_score_against_labels(corpus: Corpus, tmp_path: Path):
    titles = ["Survey one", "Survey two", "Survey three", "Survey four", "Census five", "Survey six"]
    rows = [{"corpus_id": i, "title": t, "abstract": "x" if i in (0, 1, 2, 4) else None} for i, t in enumerate(titles)]
    papers = corpus.store.open(corpus.given("papers", {PAPERS: rows}, buckets=2))
    labels = {0: "yes", 1: "yes", 2: "no", 3: "yes", 4: "yes", 5: "unsure", 77: "no"}
    score = score_selector(write_labels(tmp_path / "labels.jsonl", labels), papers, Oracle())
    assert (score.precision, score.recall, score.f1) == pytest.approx((2 / 3, 1 / 2, 4 / 7))
    assert (score.labelled, score.unsure, score.absent) == (5, 1, 1)
    assert {(c.corpus_id, c.label) for c in score.confusions} == {(2, "no"), (3, "yes"), (4, "yes")}


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"corpusid": 1}', b'{"corpusid": 1, "label": "perhaps"}'])
def test_bad_label_is_named_with_its_line(corpus: Corpus, tmp_path: Path, line: bytes):
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b'{"corpusid": 1, "label": "yes"}\n' + line)
    papers = corpus.store.open(corpus.given("papers", {PAPERS: []}))
    with pytest.raises(BadInput, match="line 2"):
        score_selector(path, papers, Oracle())


def test_labels_of_other_papers_are_an_error(corpus: Corpus, tmp_path: Path):
    papers = corpus.store.open(corpus.given("papers", {PAPERS: [{"corpus_id": 1, "title": "Survey"}]}))
    with pytest.raises(BadInput, match="none of the 1 labels belongs to a paper"):
        score_selector(write_labels(tmp_path / "labels.jsonl", {5: "yes"}), papers, Oracle())


def test_rules_agree_with_human_labels_of_real_papers(corpus: Corpus, shared: Path):
    labels = shared / "data" / "survey_labels.jsonl"
    wanted = {orjson.loads(line)["corpusid"] for line in labels.read_bytes().splitlines()}
    release = shared / "data" / "s2" / "2026-01-06"
    titles = {i: record["title"] for i, record in read_records(release / "papers", wanted)}
    abstracts = {i: record["abstract"] for i, record in read_records(release / "abstracts", wanted)}
    rows = [{"corpus_id": i, "title": titles[i], "abstract": abstracts.get(i)} for i in titles]
    papers = corpus.store.open(corpus.given("papers", {PAPERS: rows}))
    score = score_selector(labels, papers, find_selector("rules"))
    assert score.absent == 0
    assert min(score.precision, score.recall) >= 0.95, score.confusions


def read_records(folder: Path, wanted: set[int]):
    for path in sorted(folder.iterdir()):
        with gzip.open(path) as lines:
            for line in lines:
                record = orjson.loads(line)
                if record["corpusid"] in wanted:
                    yield record["corpusid"], record
