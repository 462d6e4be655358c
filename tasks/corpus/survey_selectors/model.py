"""The survey selector that asks a language model about each candidate's title and abstract."""

from collections.abc import Sequence

from schemas.errors import UsageError
from schemas.llm import UNANSWERED, CallOutcome
from tasks.corpus.survey_selector import Candidate, ModelConnection, SurveyAnswer, Verdict, survey_selector
from tasks.llm.asker import Asker, in_threads
from tasks.llm.filled_prompt import FilledPrompt, ask_by_batch
from tasks.llm.prompt import load_prompt

STAGE, PROMPT = "surveys", "survey_verdict"
MAX_ABSTRACT = 6_000
"""Characters of an abstract that are sent; longer ones are whole papers by mistake."""

MAX_REASON = 300


@survey_selector("model")
class ModelSelector:
    """Asks the model about each candidate; a reply that cannot be parsed, even after a retry, counts as a no.

    Replies are cached by request, so only new candidates and changed texts cost anything.

    Source: section 3.1 of the ResearchArena paper (GPT-4, temperature 0, seed 42).
    """

    name = "model"

    @property
    def prompt_id(self) -> str:
        """The prompt's name with its version."""
        return load_prompt(PROMPT).ref.name

    def select(self, candidates: Sequence[Candidate], connection: ModelConnection | None = None) -> list[Verdict]:
        """Returns one verdict per candidate; its reason is the model's, or says why there is no verdict."""
        if connection is None:
            raise UsageError("survey selector model asks a language model; name one and set up an endpoint for it")
        if connection.access.settings.batch:
            requests = [_question(candidate).request(connection.model, STAGE) for candidate in candidates]
            ask_by_batch(connection.door, connection.access, requests)

        def judge(candidate: Candidate) -> tuple[Asker, Verdict]:
            asker = Asker(connection.door, STAGE, connection.model, str(candidate.corpus_id))
            verdict = _judge(candidate, asker, (connection.model.model, self.prompt_id))
            connection.judged()
            return asker, verdict

        judged = in_threads(judge, candidates, connection.access)
        connection.askers += [asker for asker, _ in judged]
        return [verdict for _, verdict in judged]


def _question(candidate: Candidate) -> FilledPrompt[SurveyAnswer]:
    values = {"title": candidate.title, "abstract": (candidate.abstract or "")[:MAX_ABSTRACT]}
    return FilledPrompt(PROMPT, values, SurveyAnswer)


def _judge(candidate: Candidate, asker: Asker, model_and_prompt: tuple[str, str]) -> Verdict:
    reply = _question(candidate).ask(asker)
    outcome: CallOutcome = UNANSWERED.get(reply.outcome, "ok")
    source = (*model_and_prompt, outcome)
    if reply.answer is None:
        return Verdict(False, reply.reason[:MAX_REASON], *source)
    return Verdict(reply.answer.survey, " ".join(reply.answer.reason.split())[:MAX_REASON], *source)
