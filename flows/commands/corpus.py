"""Commands `arena corpus`: check the stages that make the corpus."""

from pathlib import Path

from flows.commands.estimate import show_calls
from flows.commands.options import Folder, open_store
from flows.commands.terminal import show_json, show_rows
from flows.pipeline.models import choose_model, model_access
from flows.pipeline.walk import choose_edition
from schemas.errors import UsageError
from schemas.identifiers import EditionName
from schemas.llm import Estimate, Rehearsed
from tasks.corpus.selector_scoring import score_selector
from tasks.corpus.survey_selector import connect_model, find_selector
from tasks.store.editions import Editions


def selector(
    labels: Path,
    /,
    *,
    name: str = "rules",
    model: str | None = None,
    edition: EditionName | None = None,
    folder: Folder = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Compare a survey selector with human labels, over the papers of an edition.

    Args:
        labels: JSON lines of the form {"corpusid": ..., "title": ..., "label": "yes", "no" or "unsure"}.
        name: Name of the selector.
        model: Language model, for a selector that uses one; left out: the machine's ARENA_LLM_MODEL.
        edition: Name of the edition; may be left out when there is only one.
        dry_run: Estimate the language model calls and their cost, and ask none.
        json: Print as JSON.
    """
    store = open_store(folder)
    chosen = choose_edition(store, edition)
    papers = Editions(store).load(chosen).slots.get("papers")
    if papers is None:
        raise UsageError(f"edition {chosen} has no papers; run: arena build")
    chosen_selector = find_selector(name)
    asked = choose_model(store.root, model) if chosen_selector.prompt_id else None
    noted = dict[str, Rehearsed]() if dry_run else None
    access = model_access(store.root, rehearsal=noted) if asked else None
    with connect_model(access, asked) as connection:
        found = score_selector(labels, store.open(papers), chosen_selector, connection=connection)
    if noted is not None:
        show_calls(Estimate.of(noted.values()), json)
        return
    if json:
        show_json({**found._asdict(), "confusions": [wrong._asdict() for wrong in found.confusions]})
        return
    summary = {
        "precision": found.precision,
        "recall": found.recall,
        "F1": found.f1,
        "labelled": found.labelled,
        "unsure": found.unsure,
        "not in the edition": found.absent,
    }
    if found.confusions:
        show_rows([wrong._asdict() for wrong in found.confusions], "papers with another label")
    show_rows([summary], f"selector {name} against {labels.name}")
