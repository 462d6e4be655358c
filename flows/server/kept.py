"""Keeps what people have set on the server: compares what was deployed last, what is there now, and what is wanted."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

ABSENT = object()
"""Stands for a value that is not there."""


class Difference(NamedTuple):
    """A value that people have set on the server and that is kept.

    Attributes:
        path: Where it is: `parameters.settings.way`.
        there: The value on the server, as text.
        wanted: The value of the installation, as text.
    """

    path: str
    there: str
    wanted: str


def merge(before: object, there: object, wanted: object, path: str = "") -> tuple[Any, list[Difference]]:
    """Merges the wanted values into those on the server.

    A value on the server that is not what was deployed last was set by a person: it is kept.

    Args:
        before: What was deployed last; ABSENT: not known, then everything on the server is a person's.
        there: What is on the server.
        wanted: What is to be deployed.
        path: Where these values are.

    Returns:
        The merged values (ABSENT: none), and every value that is kept although another is wanted.
    """
    if isinstance(there, dict) and isinstance(wanted, dict):
        known = cast(Mapping[str, Any], before if isinstance(before, dict) else {})
        mine, theirs = cast(Mapping[str, Any], wanted), cast(Mapping[str, Any], there)
        merged: dict[str, Any] = {}
        kept: list[Difference] = []
        for name in dict.fromkeys([*theirs, *mine]):
            parts = (known.get(name, ABSENT), theirs.get(name, ABSENT), mine.get(name, ABSENT))
            value, differences = merge(*parts, f"{path}.{name}" if path else name)
            merged |= {} if value is ABSENT else {name: value}
            kept += differences
        return merged, kept
    if there in (wanted, before):
        return wanted, []
    return there, [Difference(path, _text(there), _text(wanted))]


def _text(value: object) -> str:
    return "nothing" if value is ABSENT else repr(value)
