"""What models cost: the dated table beside this file, and the settings that go before it."""

from functools import cache
from pathlib import Path

from pydantic import BaseModel

from schemas.errors import BadInput
from schemas.llm import LlmSettings, Price

FILE = Path(__file__).with_name("prices.json")


class PriceTable(BaseModel):
    """The price table: when and from where it was taken, and the prices by the endpoints' model names."""

    as_of: str
    source: str
    models: dict[str, Price]


@cache
def price_table() -> PriceTable:
    """The table that comes with the project."""
    return PriceTable.model_validate_json(FILE.read_bytes())


def price_of(settings: LlmSettings, model: str) -> Price:
    """Price of a model: from the settings, else from the table.

    Raises:
        BadInput: Neither names the model. Names are not guessed at: versions of one model differ in price.
    """
    price = settings.prices.get(model) or price_table().models.get(model)
    if price is None:
        raise BadInput(
            f"no price is known for model {model!r} (price table of {price_table().as_of}); set its price in the "
            "settings: prices = {model: {input, output}} in USD per million tokens, 0 for a model of your own"
        )
    return price
