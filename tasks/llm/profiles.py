"""Finds the profile of a model, and fits requests to it: the one place that knows how endpoints differ."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from schemas.errors import BadInput
from schemas.llm import Image, Message, Parameters, ReasoningField, Request
from schemas.llm_profile import PLAIN, ModelProfile
from schemas.llm_settings import LlmSettings

FILE = Path(__file__).with_name("profiles.toml")

BYTES_PER_TOKEN = 3
"""Bytes of a token where a prompt must fit into a context: fewer than in English text, so that it does fit."""

_SELECTORS = frozenset({"models", "endpoints"})


@cache
def builtin_profiles() -> Mapping[str, ModelProfile]:
    """Returns the profiles that come with the project, by name, in the order in which they apply."""
    found = tomllib.loads(FILE.read_text("utf-8"))
    return {name: ModelProfile.model_validate(told) for name, told in found.items()}


class Profiles:
    """The profiles of one endpoint's models.

    Args:
        settings: The endpoint, and profiles of its own.
    """

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._found: dict[str, ModelProfile] = {}

    def of(self, model: str) -> ModelProfile:
        """Returns the profile of a model: all that fit, and then the fields that the settings name themselves."""
        if model not in self._found:
            self._found[model] = self._merge(model)
        return self._found[model]

    def names(self, model: str) -> list[str]:
        """Returns the names of the profiles that fit a model, in the order in which they apply."""
        return [name for name, profile in self._all() if self._fits(profile, model)]

    def _all(self) -> list[tuple[str, ModelProfile]]:
        return [*builtin_profiles().items(), *self._settings.profiles.items()]

    def _fits(self, profile: ModelProfile, model: str) -> bool:
        asked = ((self._settings.provider_name, profile.endpoints), (model, profile.models))
        return all(any(fnmatchcase(name.lower(), pattern) for pattern in patterns) for name, patterns in asked)

    def _merge(self, model: str) -> ModelProfile:
        changes: dict[str, Any] = {}
        for _, profile in self._all():
            if self._fits(profile, model):
                changes |= {name: getattr(profile, name) for name in profile.model_fields_set - _SELECTORS}
        own = {"structured": self._settings.structured, "token_field": self._settings.token_field}
        changes |= {name: value for name, value in own.items() if value is not None}
        return PLAIN.model_copy(update=changes) if changes else PLAIN


def fitted(request: Request[Any], profile: ModelProfile) -> Request[Any]:
    """Returns a request whose parameters the model takes; the same object where nothing changes.

    Raises:
        BadInput: It holds pictures or offers functions, and the model takes none.
    """
    if profile is PLAIN:
        return request
    if request.tools and not profile.tools:
        raise BadInput(f"stage {request.stage!r} offers functions, which the model's profile rules out (tools = false)")
    if not profile.images and any(isinstance(piece, Image) for piece in _pieces(request)):
        raise BadInput(f"stage {request.stage!r} sends pictures, which the model's profile rules out (images = false)")
    if any(message.reasoning for message in request.messages):
        messages = tuple(_with_reasoning(message, profile.reasoning_back) for message in request.messages)
        request = request.model_copy(update={"messages": messages})
    parameters = _fitted(request, profile)
    return request if parameters is request.parameters else request.model_copy(update={"parameters": parameters})


def _with_reasoning(message: Message, wanted: ReasoningField | None) -> Message:
    """Returns a message with the member that the server wants back of its reasoning, or with none of it."""
    kept = {name: told for name, told in message.reasoning.items() if name == wanted}
    return message.model_copy(update={"reasoning": kept})


def _fitted(request: Request[Any], profile: ModelProfile) -> Parameters:
    """Returns the request's parameters as the model takes them."""
    asked = request.parameters
    changes: dict[str, Any] = {}
    if profile.temperature is not None:
        changes["temperature"] = profile.temperature
    changes |= {name: () if name == "stop" else None for name in profile.refuses}
    limit = max(asked.max_tokens, profile.least_tokens)
    if profile.context is not None:
        limit = min(limit, max(profile.context - _tokens(request), 1))
    if limit != asked.max_tokens:
        changes["max_tokens"] = limit
    if profile.body:
        changes["extra"] = {**profile.body, **asked.extra}
    return asked.model_copy(update=changes) if changes else asked


def _tokens(request: Request[Any]) -> int:
    """Returns about how many tokens the texts of a request are, rather too many."""
    length = sum(len(piece.encode("utf-8", "replace")) for piece in _pieces(request) if isinstance(piece, str))
    return math.ceil(length / BYTES_PER_TOKEN)


def _pieces(request: Request[Any]) -> Iterator[str | Image]:
    return (piece for message in request.messages for piece in message.pieces)
