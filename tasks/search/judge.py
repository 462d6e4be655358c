"""What a judge of search results is, and the registry of judges."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from schemas.llm import ModelName, Parameters, Request
from schemas.registry import Registry
from tasks.llm.prompt import Prompt, load_prompt

AnswerT = TypeVar("AnswerT", bound=BaseModel)

STAGE = "judge"
"""Under which judging is paid for."""


class Verdict(NamedTuple):
    """What a judge says of a paper for a query: a level of 0 to 5, how sure it is (0 to 10), a sentence."""

    score: int
    confidence: int | None = None
    reason: str | None = None


class Paper(NamedTuple):
    """What a judge is shown of a paper; empty where there is none."""

    title: str
    abstract: str


@dataclass(frozen=True)
class Judge:
    """A registered judge.

    Attributes:
        name: Lower-case word.
        description: One sentence: what it is asked for.
        version: Raised whenever its judgments can change.
        prompt: Its prompt, or the id of its prompt file; the variables are `query`, `title` and `abstract`.
        answer: The form that its answer must have.
        parameters: How the model is asked to write.
        read: Makes a verdict of an answer.
    """

    name: str
    description: str
    version: int
    prompt: str | Prompt
    answer: type[BaseModel]
    parameters: Parameters
    read: Callable[[Any], Verdict]

    def request(self, query: str, paper: Paper, model: ModelName, attempt: int = 0) -> Request[Any]:
        """The question whether a paper is relevant, as it is sent; its texts are delimited as foreign."""
        prompt = load_prompt(self.prompt)
        return Request(
            messages=prompt.render({"query": query, "title": paper.title, "abstract": paper.abstract}),
            stage=STAGE,
            prompt=prompt.ref,
            answer=self.answer,
            parameters=self.parameters,
            model=model.model,
            attempt=attempt,
        )


_registry = Registry[Judge]("judge", "tasks.search.judges", group="arena.judges")

all_judges = _registry.all
"""Every judge by name: each file of this folder, and the entry points of other packages."""

find_judge = _registry.find
"""The judge of that name; where there is none, a UsageError lists those there are."""


def judge(
    name: str,
    description: str,
    *,
    prompt: str | Prompt,
    answer: type[AnswerT],
    parameters: Parameters,
    version: int = 1,
) -> Callable[[Callable[[AnswerT], Verdict]], Callable[[AnswerT], Verdict]]:
    """Registers a function that makes a verdict of a model's answer as a judge.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it is asked for.
        prompt: Its prompt, or the id of its prompt file; the variables are `query`, `title` and `abstract`.
        answer: The form that the model's answer must have; what does not have it is a failed judgment.
        parameters: How the model is asked to write.
        version: Raised whenever its judgments can change.

    Raises:
        ValueError: Another judge has the name.
    """

    def decorate(read: Callable[[AnswerT], Verdict]) -> Callable[[AnswerT], Verdict]:
        _registry.add(name, Judge(name, description, version, prompt, answer, parameters, read))
        return read

    return decorate
