"""Types of decoded JSON."""

from typing import Any

JsonObject = dict[str, Any]
"""A JSON object that a foreign service or file gave; what it holds must be checked before use."""
