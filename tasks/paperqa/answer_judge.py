"""The judge of free-text answers, which asks a model through the door."""

from schemas.errors import ArenaError, BadInput
from schemas.llm import Parameters
from tasks.llm.asker import Asker
from tasks.llm.prompt import Trusted

VERDICT_TOKENS = 512


class DoorJudge:
    """Grades the answer to one question by asking a model.

    Args:
        asker: Asks the grading model; the model that the evaluator names is ignored.

    Attributes:
        replies: The model's replies, in order.
        trouble: The error of the last call. Evaluators count every failure as 0, even one that would hit all answers.

    Deviates:
        Upstream lets every question name its judge (gpt-4o-mini); here one judge grades a whole run and is part of
        its settings. The temperature comes from the question.
    """

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.replies: list[str] = []
        self.trouble: ArenaError | None = None

    def __call__(self, system: str, user: str, model: str, temperature: float) -> str:
        """Returns the judge's reply.

        Raises:
            BadInput: The call failed or was refused.
            OverBudget: The cap leaves too little for the call.
        """
        parameters = Parameters(temperature=temperature, max_tokens=VERDICT_TOKENS)
        # The evaluators delimit what is foreign in their messages themselves.
        values = {"task": Trusted(system), "material": Trusted(user)}
        try:
            reply = self.asker.ask("airqa_judge", values, parameters=parameters)
        except ArenaError as error:
            self.trouble = error
            raise
        if reply.outcome != "ok":
            raise BadInput(f"the judge gave no verdict ({reply.outcome}: {reply.reason})")
        self.replies.append(reply.text)
        return reply.text
