"""Commands that score files: rankings against relevance judgments, a survey selector against labels."""

from pathlib import Path

from flows.commands.options import Folder, open_store
from flows.commands.terminal import show_json, show_rows
from flows.pipeline import summaries as tables
from flows.pipeline.models import choose_model, model_access
from flows.pipeline.walk import choose_edition
from schemas.errors import UsageError
from tasks.corpus.selector_scoring import score_selector
from tasks.corpus.survey_selector import connect_model, find_selector
from tasks.metrics.ranking import evaluate_run
from tasks.ranking.run_files import read_qrels, read_run
from tasks.store.editions import Editions


def ranking(qrels: Path, run: Path, /, *, labels: tables.Labels = "graded", json: bool = False) -> None:
    """Score a run file against relevance judgments, as trec_eval does.

    Both may be TREC files or JSON. A topic that the run lacks counts 0 in `mean_all` and is left out of
    `mean_evaluated`.

    Args:
        qrels: Judgments: `topic 0 document label` lines, or {topic: {document: label}}.
        run: Rankings: `topic Q0 document rank score tag` lines, or {topic: [[document, score], ...]}.
        labels: Labels as they are, or only 2 and more.
        json: Print per-topic values and both means as JSON.
    """
    evaluation = evaluate_run(read_qrels(qrels), read_run(run), labels)
    if json:
        show_json(evaluation)
        return
    means = {"mean_all": evaluation["mean_all"] or {}, "mean_evaluated": evaluation["mean_evaluated"] or {}}
    names = list(means["mean_all"] or means["mean_evaluated"])
    rows: list[tables.Row] = [
        {"measure": name, **{kind: values.get(name) for kind, values in means.items()}} for name in names
    ]
    show_rows(rows, f"{run.name}, {labels} labels, {len(evaluation['per_topic'])} topics evaluated")


def selector(
    labels: Path,
    /,
    *,
    name: str = "rules",
    model: str | None = None,
    edition: str | None = None,
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Compare a survey selector with human labels, over the papers of an edition.

    Args:
        labels: JSON lines {"corpusid": ..., "title": ..., "label": "yes", "no" or "unsure"}.
        name: Which selector.
        model: Language model of a selector that asks one; empty: the machine's ARENA_LLM_MODEL.
        edition: Whose papers; may be left out when there is only one.
        json: Print as JSON.
    """
    store = open_store(folder)
    chosen = choose_edition(store, edition)
    papers = Editions(store).load(chosen).slots.get("papers")
    if papers is None:
        raise UsageError(f"edition {chosen} has no papers; run: arena build")
    chosen_selector = find_selector(name)
    asked = choose_model(store.root, model) if chosen_selector.prompt_id else None
    with connect_model(model_access(store.root) if asked else None, asked) as connection:
        found = score_selector(labels, store.open(papers), chosen_selector, connection=connection)
    if json:
        show_json({**found._asdict(), "confusions": [wrong._asdict() for wrong in found.confusions]})
        return
    summary: tables.Row = {
        "precision": found.precision,
        "recall": found.recall,
        "F1": found.f1,
        "labelled": found.labelled,
        "unsure": found.unsure,
        "not in the edition": found.absent,
    }
    if found.confusions:
        show_rows([dict(wrong._asdict()) for wrong in found.confusions], "where it disagrees")
    show_rows([summary], f"selector {name} against {labels.name}")
