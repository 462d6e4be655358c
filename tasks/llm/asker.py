"""Asks a model on behalf of one subject and records the calls; opens the connection that stages share."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from schemas.errors import BadInput, ModelError, OverBudget, UsageError
from schemas.llm import AnswerT, Image, Message, ModelName, Parameters, PromptRef, Reply, Request
from schemas.llm_settings import LlmAccess
from schemas.tables.model_calls import MODEL_CALLS, ModelCallRow
from tasks.llm.blocking import BlockingDoor
from tasks.llm.parameters import parameters_of
from tasks.llm.prompt import Prompt, load_prompt
from tasks.store.parquet import write_table

SubjectT = TypeVar("SubjectT")
ResultT = TypeVar("ResultT")


class Asker:
    """Asks a model on behalf of one subject and records the calls. Not thread-safe.

    Args:
        door: The connection to the model; shared by all subjects.
        stage: Name under which budget and cost are recorded.
        model: The model to ask.
        subject: Id of the topic, survey, query or question.

    Attributes:
        calls: A row of table `model_calls` for every call so far.
        settled: Whether no call failed at the endpoint: asking everything again gives the same replies.
    """

    def __init__(self, door: BlockingDoor, stage: str, model: ModelName, subject: str) -> None:
        self.calls: list[ModelCallRow] = []
        self.settled = True
        self._door = door
        self._stage = stage
        self._model = model
        self._subject = subject

    def ask(
        self,
        prompt: str | Prompt,
        values: Mapping[str, Any],
        answer: type[AnswerT] | None = None,
        *,
        images: Sequence[Image] = (),
        parameters: Parameters | None = None,
        attempt: int = 0,
    ) -> Reply[AnswerT]:
        """Fills a prompt and sends it.

        Args:
            prompt: Id of the prompt file, or a prompt.
            values: A value for each variable of the prompt; plain text counts as foreign and is delimited.
            answer: The form of the answer; None for plain text.
            images: Pictures that follow the text.
            parameters: Sampling parameters of the model; None: those of the prompt.
            attempt: Another number asks the same again and gets a new reply.

        Returns:
            The reply; its outcome is `ok`, `failed` or `refused`.

        Raises:
            OverBudget: The cap leaves too little for the call.
            ModelError: Every call would fail, whatever the subject.
            TransientError: The endpoint cannot be reached.
        """
        found = load_prompt(prompt)
        messages = found.render(values, images)
        chosen = parameters or parameters_of(found.ref.id)
        return self.converse(messages, answer, prompt=found.ref, parameters=chosen, attempt=attempt)

    def converse(
        self,
        messages: tuple[Message, ...],
        answer: type[AnswerT] | None = None,
        *,
        prompt: PromptRef | None = None,
        **further: Any,
    ) -> Reply[AnswerT]:
        """Sends messages of the caller; otherwise like `ask`.

        Args:
            messages: The conversation so far.
            answer: The form of the answer; None for plain text.
            prompt: The prompt file that started the conversation.
            further: Other fields of `Request`.
        """
        request: Request[AnswerT] = Request(
            messages=messages, stage=self._stage, prompt=prompt, answer=answer, model=self._model.model, **further
        )
        try:
            reply = self._door.ask(request)
        except BadInput as error:
            raise ModelError(str(error)) from error
        self.settled &= reply.settled
        self.calls.append(
            ModelCallRow(
                subject=self._subject,
                place=len(self.calls) + 1,
                prompt=prompt.name if prompt else None,
                keys=list(reply.keys),
                outcome=reply.outcome,
                reason=reply.reason or None,
                input_tokens=reply.usage.tokens.input,
                output_tokens=reply.usage.tokens.output,
                cost_usd=reply.usage.usd,
            )
        )
        if reply.outcome == "over_budget":
            raise OverBudget(reply.reason)
        return reply


def require_asker(asker: Asker | None, who: str) -> Asker:
    """Returns the asker of a plug-in that was registered with `asks`.

    Args:
        asker: The plug-in's asker, if it has one.
        who: Kind of the plug-in, for the message: `system`, `builder`.

    Raises:
        UsageError: It has none.
    """
    if asker is None:
        raise UsageError(f"this {who} asks a language model; register it with asks=Demand(...)")
    return asker


def require_model(who: str, asks: bool, model: ModelName | None) -> None:
    """Checks that settings name a model if and only if the plug-in asks one.

    Args:
        who: Start of the message, for example `baseline storm`.
        asks: Whether the plug-in asks a model.
        model: The model that the settings name.

    Raises:
        UsageError: A model is missing, or named although none is asked.
    """
    if asks != (model is not None):
        raise UsageError(f"{who} " + ("asks a model; name one" if asks else "asks no model; leave the model out"))


@contextmanager
def open_door(access: LlmAccess | None, model: ModelName) -> Generator[BlockingDoor]:
    """Opens a door to the endpoint that a stage's settings name.

    Args:
        access: The machine's endpoint; None if there is none.
        model: The model of the stage's settings, which the results name.

    Raises:
        UsageError: No endpoint is configured, or not the one that the settings name.
        ArenaError: At the end, more calls have failed than the settings allow.
    """
    if access is None:
        raise UsageError(
            f"model {model.model} of {model.provider} is to be asked, and no endpoint is set up; "
            "set ARENA_LLM_BASE_URL and ARENA_LLM_API_KEY, or ARENA_LLM_REPLAY"
        )
    found = access.settings.provider_name
    if found != model.provider and not access.settings.replay:
        raise UsageError(
            f"model {model.model} of {model.provider} is to be asked, but the endpoint set up is {found}; "
            "set ARENA_LLM_BASE_URL to that of the provider, or plan the run again"
        )
    settings = access.settings.model_copy(update={"provider": model.provider, "model": model.model})
    with BlockingDoor(settings, access.api_key) as door:
        door.door.rehearsal = access.rehearsal
        yield door
        door.require_healthy()


def in_threads(
    work: Callable[[SubjectT], ResultT], subjects: Sequence[SubjectT], access: LlmAccess | None
) -> list[ResultT]:
    """Processes several subjects at once, so that many calls are in flight; results are in the order of the subjects.

    Args:
        work: Called by several threads; the first error that it raises is raised and cancels the rest.
        subjects: The subjects.
        access: Its concurrency limits the threads; None: one subject after the other.
    """
    with SubjectPool(work, access) as pool:
        return [future.result() for future in [pool.submit(subject) for subject in subjects]]


class SubjectPool(Generic[SubjectT, ResultT]):
    """Processes subjects in threads, as many as calls may be in flight.

    Args:
        work: Called by several threads. After an error no further subject is begun; the pool raises the first error.
        access: Its concurrency is the number of threads; None: one thread.
    """

    def __init__(self, work: Callable[[SubjectT], ResultT], access: LlmAccess | None) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(access.settings.concurrency if access else 1, "subject")
        self._error: BaseException | None = None

    def submit(self, subject: SubjectT) -> Future[ResultT]:
        """Adds a subject; its result may be cancelled when another subject fails."""
        return self._pool.submit(self._run, subject)

    def _run(self, subject: SubjectT) -> ResultT:
        if self._error:
            raise CancelledError
        try:
            return self._work(subject)
        except BaseException as error:
            self._error = self._error or error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error and not self._error:
            self._error = error
        self._pool.shutdown(cancel_futures=True)
        if self._error and isinstance(error, CancelledError | None):
            raise self._error


def call_rows(askers: Iterable[Asker]) -> pa.Table:
    """Returns the calls of askers as rows of table `model_calls`, in their order."""
    return MODEL_CALLS.of(row for asker in askers for row in asker.calls)


def write_calls(path: Path, askers: Iterable[Asker]) -> int:
    """Writes the rows of `call_rows` to a file and returns their number."""
    return write_table(path, MODEL_CALLS, call_rows(askers))
