"""The judge of free-text answers behind the door to models."""

from schemas.errors import ArenaError, BadInput
from schemas.llm import Parameters
from tasks.llm.asker import Asker
from tasks.llm.prompt import Trusted

VERDICT_TOKENS = 512


class DoorJudge:
    """Grades by asking a model; an instance grades one question's answer.

    Args:
        asker: Whose model grades, whatever model the evaluator names.

    Attributes:
        replies: What it was told, in order.
        trouble: The last call's error: evaluators count every failure as 0, also one that concerns all answers.

    Deviates:
        Upstream lets every question name its judge (gpt-4o-mini); here one judge grades a whole run and is part of
        its settings. The temperature is the question's.
    """

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.replies: list[str] = []
        self.trouble: ArenaError | None = None

    def __call__(self, system: str, user: str, model: str, temperature: float) -> str:
        """The reply.

        Raises:
            BadInput: The call failed or was refused.
            OverBudget: The cap leaves too little for it.
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
