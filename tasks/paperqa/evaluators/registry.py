"""The registry of evaluators: options and group of each, and how one is called.

An evaluator is a function of (answer, options), or of (answer, options, judge) in the groups that may ask a model. Its
options are a frozen dataclass whose fields define the accepted keyword arguments and their types.
"""

import dataclasses
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, cast, get_type_hints

from schemas.errors import BadInput
from tasks.paperqa.evaluators.fuzzy import FUZZ_METHODS

Judge = Callable[[str, str, str, float], str]
"""A model that grades: (system message, user message, model, temperature) -> reply."""


@dataclasses.dataclass
class NotingJudge:
    """A judge with the replies in which an evaluator found no verdict."""

    judge: Judge
    without_verdict: list[str] = dataclasses.field(default_factory=list[str])

    def __call__(self, system: str, user: str, model: str, temperature: float) -> str:
        """Returns the judge's reply."""
        return self.judge(system, user, model, temperature)


Group = Literal["match", "set", "retrieval", "judged", "formula", "logical", "foreign"]
JUDGED_GROUPS = frozenset({"judged", "formula", "foreign"})
"""Groups whose evaluators always ask a model: they make an evaluator subjective."""


class Violation(NamedTuple):
    """A rule that an evaluator breaks: the rule's id, the place in the evaluator, and the problem."""

    rule: str
    where: str
    message: str


@dataclasses.dataclass(frozen=True)
class Kind:
    """The expected kind of a keyword argument, and the rule that another kind breaks."""

    meaning: str
    fits: Callable[[Any], bool]
    rule: str = "W10"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


Text = Annotated[Any, Kind("a string", lambda v: isinstance(v, str))]
Texts = Annotated[Any, Kind("a list of strings", _is_texts)]
TextOrTexts = Annotated[Any, Kind("a string or a list of strings", lambda v: isinstance(v, str) or _is_texts(v))]
Items = Annotated[Any, Kind("a list", lambda v: isinstance(v, list))]
Anything = Annotated[Any, Kind("any value", lambda v: True)]
Flag = Annotated[Any, Kind("true or false", lambda v: isinstance(v, bool))]
Integer = Annotated[Any, Kind("an integer", _is_integer)]
Number = Annotated[Any, Kind("a number", _is_number)]
Digits = Annotated[Any, Kind("an integer or null", lambda v: v is None or _is_integer(v))]
Tolerance = Annotated[Any, Kind("a number that is not negative", lambda v: _is_number(v) and v >= 0)]
FuzzMethod = Annotated[Any, Kind(f"one of {', '.join(FUZZ_METHODS)}", lambda v: v in FUZZ_METHODS)]
Threshold = Annotated[
    Any, Kind("a number above 1 and at most 100, or -1", lambda v: _is_number(v) and (v == -1 or 1 < v <= 100), "W11")
]
ElementType = Annotated[
    Any, Kind("str, int, float or structured", lambda v: v in ("str", "int", "float", "structured"))
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of an evaluator's options."""

    def violations(self) -> Iterator[Violation]:
        """Returns the rules that the options break; an evaluator with a broken hard rule (V) cannot score."""
        return iter(())

    def parts(self) -> dict[str, tuple[object, object]]:
        """Returns name and keyword arguments of the nested evaluators, by position, in order."""
        return {}

    def own_answer(self) -> object:
        """Returns an answer that the options declare right (the gold value), or None if there is none."""
        return getattr(self, "gold", None)


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """One registered evaluation function.

    With `rejects_unknown`, an undeclared keyword argument makes it fail instead of being ignored.
    """

    name: str
    group: Group
    options: type[Options]
    score: Callable[..., float]
    rejects_unknown: bool

    @property
    def kinds(self) -> dict[str, Kind]:
        """Returns the kind of every declared keyword argument."""
        hints = get_type_hints(self.options, include_extras=True)
        return {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(self.options)}

    @property
    def required(self) -> frozenset[str]:
        """Returns the names of the keyword arguments without default."""
        fields = dataclasses.fields(self.options)
        return frozenset(field.name for field in fields if field.default is dataclasses.MISSING)

    def unknown(self, kwargs: Mapping[str, object]) -> list[str]:
        """Names of keyword arguments that are not declared, sorted."""
        return sorted(kwargs.keys() - {field.name for field in dataclasses.fields(self.options)})

    def read_options(self, kwargs: Mapping[str, object]) -> Options:
        """The options from the declared ones of the keyword arguments.

        Raises:
            BadInput: One is missing, or the values do not go together.
        """
        missing, unknown = sorted(self.required - kwargs.keys()), self.unknown(kwargs)
        if missing:
            raise BadInput(f"{self.name} lacks {', '.join(missing)}: add it to eval_kwargs")
        options = self.options(**{name: value for name, value in kwargs.items() if name not in unknown})
        for violation in (found for found in options.violations() if found.rule.startswith("V")):
            raise BadInput(f"{self.name}: {violation.message}")
        return options

    def __call__(self, answer: object, kwargs: Mapping[str, object], judge: Judge | None) -> float:
        """Score of an answer; raises whatever keeps the evaluator from scoring."""
        unknown = self.unknown(kwargs)
        if unknown and self.rejects_unknown:
            raise BadInput(f"{self.name} does not take {', '.join(unknown)}: remove it from eval_kwargs")
        options = self.read_options(kwargs)
        if self.group in JUDGED_GROUPS or self.group == "logical":
            return float(self.score(answer, options, judge))
        return float(self.score(answer, options))


_EVALUATORS: dict[str, Evaluator] = {}


def evaluator(
    name: str, group: Group, options: type[Options], rejects_unknown: bool = False
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register the decorated function as the evaluator of that name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        if name in _EVALUATORS:
            raise BadInput(f"evaluator {name} is registered twice: rename one")
        _EVALUATORS[name] = Evaluator(name, group, options, function, rejects_unknown)
        return function

    return register


def evaluator_names() -> list[str]:
    """Names of all registered evaluators, sorted."""
    return sorted(_EVALUATORS)


def get_evaluator(name: object) -> Evaluator:
    """The evaluator of that name.

    Raises:
        BadInput: There is none; an evaluator's name comes from data and is never looked up anywhere else.
    """
    found = _EVALUATORS.get(name) if isinstance(name, str) else None
    if found is None:
        raise BadInput(f"unknown evaluator {reprlib.repr(name)}: known are {', '.join(evaluator_names())}")
    return found


def evaluator_parts(spec: object) -> tuple[object, Mapping[str, object]]:
    """Name and keyword arguments of an evaluator as it stands in the data.

    Raises:
        BadInput: It is not an object with `eval_func` and an object `eval_kwargs`.
    """
    if isinstance(spec, Mapping):
        fields = cast("Mapping[str, object]", spec)
        kwargs = fields.get("eval_kwargs")
        if "eval_func" in fields and isinstance(kwargs, Mapping):
            return fields["eval_func"], cast("Mapping[str, object]", kwargs)
    raise BadInput(f"an evaluator is an object with eval_func and eval_kwargs, not {type(spec).__name__}")
