"""Prices of models: the settings, and the dated table beside this file."""

from functools import cache
from pathlib import Path

from pydantic import BaseModel

from schemas.errors import BadInput
from schemas.llm import Price
from schemas.llm_settings import LlmSettings

FILE = Path(__file__).with_name("prices.json")


class PriceTable(BaseModel):
    """The price table: its date, its source, and prices by the endpoints' model names."""

    as_of: str
    source: str
    models: dict[str, Price]


@cache
def price_table() -> PriceTable:
    """Returns the table that comes with the project."""
    return PriceTable.model_validate_json(FILE.read_bytes())


def price_of(settings: LlmSettings, model: str) -> Price:
    """Returns the price of a model, from the settings or else from the table.

    Raises:
        BadInput: Neither has the model. Similar names are not accepted, because versions of a model differ in price.
    """
    price = settings.prices.get(model) or price_table().models.get(model)
    if price is None:
        raise BadInput(
            f"no price is known for model {model!r} (price table of {price_table().as_of}); set its price in the "
            "settings: prices = {model: {input, output}} in USD per million tokens, 0 for a model of your own"
        )
    return price
