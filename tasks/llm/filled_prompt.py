"""A prompt with its values, which can be asked directly or sent ahead with many others through the batch service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from schemas.llm import AnswerT, Image, ModelName, Parameters, Reply, Request
from schemas.llm_settings import LlmAccess
from tasks.llm.asker import Asker
from tasks.llm.blocking import BlockingDoor
from tasks.llm.parameters import parameters_of
from tasks.llm.prompt import load_prompt


@dataclass(frozen=True)
class FilledPrompt(Generic[AnswerT]):
    """The arguments of `Asker.ask`: prompt, values, form of the answer, pictures, parameters (None: the prompt's)."""

    prompt: str
    values: Mapping[str, Any]
    answer: type[AnswerT]
    images: tuple[Image, ...] = ()
    parameters: Parameters | None = None

    def ask(self, asker: Asker) -> Reply[AnswerT]:
        """Asks the model; a reply that a batch brought comes from the door's cache."""
        return asker.ask(self.prompt, self.values, self.answer, images=self.images, parameters=self.parameters)

    def request(self, model: ModelName, stage: str) -> Request[AnswerT]:
        """Returns the request that `ask` sends."""
        found = load_prompt(self.prompt)
        return Request(
            messages=found.render(self.values, self.images),
            stage=stage,
            prompt=found.ref,
            answer=self.answer,
            parameters=self.parameters or parameters_of(found.ref.id),
            model=model.model,
        )


def ask_by_batch(door: BlockingDoor, access: LlmAccess, requests: Sequence[Request[Any]], poll_s: float = 30.0) -> None:
    """Sends requests to the endpoint's batch service, at its lower price and with answers within a day.

    Replies go to the door's cache, where `FilledPrompt.ask` finds them. Calls that batches leave unanswered fail then,
    or are asked one by one if the settings allow the full price. Does nothing if every reply comes from a replay file,
    or in a rehearsal. An interrupted wait resumes open batches.

    Args:
        door: Its cache and budget are used.
        access: The endpoint's key.
        requests: Any number of requests.
        poll_s: Seconds between two status requests for a batch.

    Raises:
        BadInput: As `Door.ask`.
        TransientError: The endpoint failed through all tries.
    """
    if door.door.replay or door.door.rehearsal is not None:
        return
    from tasks.llm.batch import BatchClient  # cache and replay must work without the openai package
    from tasks.llm.provider import OpenAiProvider

    async def work() -> None:
        provider = OpenAiProvider(door.door.settings, access.api_key)
        try:
            await BatchClient(door.door, provider, poll_s=poll_s).run(requests)
            door.door.stored_only = not access.settings.batch_full_price
        finally:
            await provider.close()

    door.run(work())
