"""What a judge of search results is, and the registry of judges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, JsonValue

from schemas.llm import ModelName, Parameters, Request
from schemas.registry import Registry
from schemas.search import ThinkingField
from tasks.llm.prompt import Prompt, load_prompt

AnswerT = TypeVar("AnswerT", bound=BaseModel)

STAGE = "judge"
"""Name under which the cost of judging is recorded."""


class Verdict(NamedTuple):
    """A relevance judgment: score (0-5), confidence (0-10) and a one-sentence reason."""

    score: int
    confidence: int | None = None
    reason: str | None = None


class Paper(NamedTuple):
    """The text of a paper that a judge sees; empty strings where there is none."""

    title: str
    abstract: str


@dataclass(frozen=True)
class Judge:
    """A registered judge.

    Attributes:
        name: Lower-case word.
        description: One sentence: what the judge is asked for.
        version: Raised whenever its judgments can change.
        prompt: Its prompt, or the id of its prompt file; the variables are `query`, `title` and `abstract`.
        answer: The form of its answer.
        parameters: Sampling parameters of the model.
        read: Turns an answer into a verdict.
    """

    name: str
    description: str
    version: int
    prompt: str | Prompt
    answer: type[BaseModel]
    parameters: Parameters
    read: Callable[[Any], Verdict]

    def request(
        self, query: str, paper: Paper, model: ModelName, attempt: int = 0, thinking: ThinkingField = "none"
    ) -> Request[Any]:
        """Returns the request for the relevance of a paper; its texts are delimited as foreign."""
        prompt = load_prompt(self.prompt)
        return Request(
            messages=prompt.render({"query": query, "title": paper.title, "abstract": paper.abstract}),
            stage=STAGE,
            prompt=prompt.ref,
            answer=self.answer,
            parameters=_without_thinking(self.parameters, thinking),
            model=model.model,
            attempt=attempt,
        )


NO_THINKING: Mapping[ThinkingField, dict[str, JsonValue]] = {
    "none": {},
    "google": {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0}}}},
    "reasoning_effort": {"reasoning_effort": "none"},
    "chat_template": {"chat_template_kwargs": {"enable_thinking": False}},
}
"""Members of a request that switch thinking off: of Google's endpoint, of OpenAI's kind, of vLLM and SGLang."""

GOOGLE = "generativelanguage.googleapis.com"


def thinking_field(model: ModelName) -> ThinkingField:
    """Returns how the model's endpoint is told not to think; `none` where that is not known."""
    return "google" if model.provider == GOOGLE else "none"


def _without_thinking(parameters: Parameters, thinking: ThinkingField) -> Parameters:
    if thinking == "none":
        return parameters
    return parameters.model_copy(update={"extra": {**parameters.extra, **NO_THINKING[thinking]}})


_registry = Registry[Judge]("judge", "tasks.search.judges", group="arena.judges")

all_judges = _registry.all
"""Every judge by name: each file of this folder, and the entry points of other packages."""

find_judge = _registry.find
"""Returns the judge of that name; if there is none, a UsageError lists the judges."""


def judge(
    name: str,
    description: str,
    *,
    prompt: str | Prompt,
    answer: type[AnswerT],
    parameters: Parameters,
    version: int = 1,
) -> Callable[[Callable[[AnswerT], Verdict]], Callable[[AnswerT], Verdict]]:
    """Registers a judge: a prompt, and a function that turns the model's answer into a verdict.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what the judge is asked for.
        prompt: Its prompt, or the id of its prompt file; the variables are `query`, `title` and `abstract`.
        answer: The form of the model's answer; an answer of another form is a failed judgment.
        parameters: Sampling parameters of the model.
        version: Raised whenever its judgments can change.

    Raises:
        ValueError: Another judge has the name.
    """

    def decorate(read: Callable[[AnswerT], Verdict]) -> Callable[[AnswerT], Verdict]:
        _registry.add(name, Judge(name, description, version, prompt, answer, parameters, read))
        return read

    return decorate
