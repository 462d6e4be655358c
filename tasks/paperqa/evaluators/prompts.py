"""Prompts of the judge: files that are filled with delimited foreign text.

A file contains the system message and the user message, separated by a line of three dashes.
"""

import hashlib
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("prompts")


class Prompt(NamedTuple):
    """The two messages of a request."""

    system: str
    user: str


def fill_prompt(name: str, /, frame: str | None = None, **material: str) -> Prompt:
    """Returns the prompt of that name, filled with the material unchanged.

    The tags around each piece end in a hash of all material: no text can contain its own closing tag, and equal
    material gives an equal request.

    Args:
        name: File in `prompts/`, without ending.
        frame: File whose `$task` is replaced by the system message.
        material: The value of each `$name`.
    """
    joined = "\0".join(f"{key}\0{value}" for key, value in sorted(material.items()))
    mark = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    system, user = _templates(name, frame)
    return Prompt(system.substitute(material, mark=mark), user.substitute(material, mark=mark))


@cache
def _templates(name: str, frame: str | None) -> tuple[Template, Template]:
    system, user = f"\n{_read(name)}".split("\n---\n")
    if frame is not None:
        system = _read(frame).replace("$task", system.strip())
    return Template(system.strip()), Template(user.strip())


def _read(name: str) -> str:
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
