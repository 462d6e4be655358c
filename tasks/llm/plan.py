"""From a request to the call that may be made for it: key, body, and what it can use."""

from typing import Any

from schemas.llm import Image, LlmSettings, Request, Tokens, Usage
from tasks.llm.exchange import Call
from tasks.llm.key import Keyed, request_key
from tasks.llm.prices import price_of
from tasks.llm.structured import answer_schema, response_format, with_form
from tasks.llm.wire import request_body

BYTES_PER_TOKEN = 4
"""Expected bytes of a token of English text; a token is never less than one byte."""


class Asked:
    """A request as this endpoint is asked it: with its form told, its key, and on demand the call.

    Args:
        settings: The endpoint.
        request: The question; after a repair, the conversation with the repair turn.
        told: Whether the form is part of the messages already.

    Raises:
        BadInput: A text cannot be sent.
    """

    def __init__(self, settings: LlmSettings, request: Request[Any], *, told: bool = False) -> None:
        self._settings = settings
        self.schema: dict[str, Any] | None = None
        if request.answer is not None:
            self.schema = schema = answer_schema(request.answer, settings.structured)
            request = request if told else with_form(request, schema)
        self.request = request
        self.keyed: Keyed = request_key(settings.provider_name, settings.model, request, self.schema)

    def call(self) -> Call:
        """The call, with an upper bound of what it can use.

        The bound takes the canonical request's bytes as tokens (its field names make up for what chat templates add),
        the price table's bound for each picture, and an answer of full length.

        Raises:
            BadInput: No price is known for the model.
        """
        request, settings = self.request, self._settings
        model = request.model or settings.model
        price = price_of(settings, model)
        images = sum(isinstance(piece, Image) for message in request.messages for piece in message.pieces)
        written = request.parameters.max_tokens
        bound = Tokens(len(self.keyed.parts) + images * price.image_tokens, written)
        likely = Tokens(len(self.keyed.parts) // BYTES_PER_TOKEN + images * price.image_tokens, written)
        return Call(
            keyed=self.keyed,
            provider=settings.provider_name,
            model=model,
            prompt=request.prompt.name if request.prompt else "",
            stage=request.stage,
            body=request_body(settings, request, response_format(self.schema) if self.schema else None),
            price=price,
            bound=Usage(bound, price.nano_usd(bound)),
            likely=Usage(likely, price.nano_usd(likely)),
        )
