"""Prepares a request for sending: its key, its JSON body, and an upper bound of its cost."""

from typing import Any

from schemas.llm import Image, Request, Tokens, Usage
from schemas.llm_profile import ModelProfile
from schemas.llm_settings import LlmSettings
from tasks.llm.exchange import Call
from tasks.llm.key import RequestKey, request_key
from tasks.llm.prices import price_of
from tasks.llm.profiles import fitted
from tasks.llm.structured import answer_schema, response_format, with_form
from tasks.llm.wire import request_body

BYTES_PER_TOKEN = 4
"""Bytes of an average token of English text; no token is shorter than one byte."""


class PreparedRequest:
    """A request as it is sent to this endpoint: as the model takes it, key computed, call made on demand.

    Args:
        settings: The endpoint.
        profile: What the model takes.
        request: The question; after a repair, the conversation with the repair turn.
        form_included: Whether the messages already describe the form of the answer.

    Raises:
        BadInput: A text cannot be sent, or the model does not take such a request.
    """

    def __init__(
        self, settings: LlmSettings, profile: ModelProfile, request: Request[Any], *, form_included: bool = False
    ) -> None:
        self._settings, self._profile = settings, profile
        self.schema: dict[str, Any] | None = None
        if request.answer is not None:
            self.schema = schema = answer_schema(
                request.answer, profile.structured, profile.schema_refuses, strict_only=profile.strict_only
            )
            request = request if form_included else with_form(request, schema)
        self.request = request = fitted(request, profile)
        self.keyed: RequestKey = request_key(
            settings.provider_name, settings.model, request, self.schema, settings.cache_salt
        )

    def call(self) -> Call:
        """Returns the call, with an upper bound of its usage.

        The bound counts each byte of the canonical request as a token (its field names make up for what chat templates
        add), the price table's bound for each picture, and an answer of maximum length.

        Raises:
            BadInput: The price of the model is unknown.
        """
        request, settings = self.request, self._settings
        model = request.model or settings.model
        price = price_of(settings, model)
        mixed = (message.content for message in request.messages if not isinstance(message.content, str))
        images = sum(isinstance(piece, Image) for pieces in mixed for piece in pieces)
        written = request.parameters.max_tokens
        bound = Tokens(len(self.keyed.parts) + images * price.image_tokens, written)
        likely = Tokens(len(self.keyed.parts) // BYTES_PER_TOKEN + images * price.image_tokens, written)
        return Call(
            keyed=self.keyed,
            provider=settings.provider_name,
            model=model,
            prompt=request.prompt.name if request.prompt else "",
            stage=request.stage,
            profile=self._profile,
            body=request_body(model, self._profile, request, response_format(self.schema) if self.schema else None),
            price=price,
            bound=Usage(bound, price.nano_usd(bound)),
            likely=Usage(likely, price.nano_usd(likely)),
        )
