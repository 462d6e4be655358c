"""Forms of answers that are known by their JSON schema alone."""

from functools import lru_cache
from typing import Any

import orjson
from pydantic import BaseModel, JsonValue, RootModel


def form_of(name: str, schema: dict[str, Any]) -> type[BaseModel]:
    """Returns a type that has the schema and takes any JSON object: whoever knows the form checks the answer.

    Args:
        name: Name of the form, which enters request keys.
        schema: JSON schema of an object.
    """
    return _form(name, orjson.dumps(schema))


@lru_cache(maxsize=256)
def _form(name: str, schema: bytes) -> type[BaseModel]:
    told = orjson.loads(schema)

    class Form(RootModel[dict[str, JsonValue]]):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return told

    Form.__name__ = name
    return Form
