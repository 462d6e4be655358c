"""Which prompt a conversation was made from, and what was filled into it."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from schemas.errors import BadInput
from tasks.demo.standin.rule import Asked, Turn
from tasks.llm.prompt import FOLDER

REPAIRS = frozenset({"repair", "repair_text"})
"""Prompts that ask for an answer again."""

ABOUT_ANSWERS = REPAIRS | {"answer_form"}
"""Prompts that no question begins with: they speak of the form of an answer."""

_FIRST_LINE = re.compile(r"^## (?:system|user|assistant)[ \t]*\n\s*(.+?)[ \t]*$", re.MULTILINE)
_FOREIGN = re.compile(
    r"\[\[(?P<name>[^\]\n]+) (?P<code>[0-9a-f]{12})\]\]\n(?P<text>.*?)\n\[\[end (?P=name) (?P=code)\]\]", re.S
)
_IMAGE = re.compile(r"data:image/[a-z]+;base64,", re.ASCII)


class _Message(NamedTuple):
    turn: Turn
    images: list[bytes]


@cache
def first_lines() -> dict[str, str]:
    """The first line of every prompt file by the prompt's id, as a conversation made from it begins."""
    lines: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.md")):
        found = _FIRST_LINE.search(path.read_text("utf-8"))
        lines[path.stem] = found[1] if found else ""
    return lines


def read_question(request: Mapping[str, Any]) -> Asked:
    """Reads the JSON body of a chat-completions request.

    The prompt is that of the latest message that begins as a prompt file does, so that a conversation may go on to a
    further prompt. A last turn that asks to repair an answer is taken away with the answer: the original question
    stands again.

    Raises:
        BadInput: It is no conversation, or none that was made from a prompt file.
    """
    match request.get("messages"):
        case [_, *_] as told:
            messages = [_read_message(message) for message in cast("list[Any]", told)]
        case _:
            raise BadInput("messages must be a list with at least one message")
    if len(messages) > 2 and _prompt_of(messages[-1].turn) in REPAIRS:
        messages = messages[:-2]
    turns = [message.turn for message in messages]
    named = [prompt for turn in turns if (prompt := _prompt_of(turn)) and prompt not in ABOUT_ANSWERS]
    if not named:
        raise BadInput(f"no prompt file begins with {_begin(turns[0].text)!r}; the stand-in answers these alone")
    return Asked(
        prompt=named[-1],
        text=turns[-1].text,
        texts=foreign_texts("\n".join(turn.text for turn in turns if turn.role != "assistant")),
        images=[image for message in messages for image in message.images],
        messages=turns,
        tools=_tool_names(request.get("tools")),
    )


def foreign_texts(text: str) -> dict[str, list[str]]:
    """What stands between the marks of `tasks.llm.prompt.delimit`, by name, in order; not what stands inside those."""
    found: dict[str, list[str]] = {}
    for match in _FOREIGN.finditer(text):
        found.setdefault(match["name"], []).append(match["text"])
    return found


def _prompt_of(turn: Turn) -> str | None:
    if turn.role not in ("system", "user"):
        return None
    begin = _begin(turn.text)
    return next((prompt for prompt, line in first_lines().items() if line == begin), None)


def _begin(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip()


def _read_message(message: Any) -> _Message:
    match message:
        case {"role": str(role), "content": str(text)}:
            return _Message(Turn(role, text), [])
        case {"role": str(role), "content": [*pieces]}:
            texts = [piece["text"] for piece in pieces if isinstance(piece, dict) and "text" in piece]
            return _Message(Turn(role, "\n".join(map(str, texts))), [_read_image(url) for url in _urls(pieces)])
        case {"role": str(role)}:
            return _Message(Turn(role, ""), [])  # an assistant's turn that called a tool
        case _:
            raise BadInput("a message must have a role and a content of text or of pieces")


def _urls(pieces: Sequence[Any]) -> list[str]:
    return [url for piece in pieces for url in _url(piece)]


def _url(piece: Any) -> list[str]:
    match piece:
        case {"image_url": {"url": str(url)}}:
            return [url]
        case _:
            return []


def _read_image(url: str) -> bytes:
    head = _IMAGE.match(url)
    if head is None:
        raise BadInput("pictures must be data URLs with base64: the stand-in fetches nothing")
    try:
        return base64.b64decode(url[head.end() :], validate=True)
    except binascii.Error as error:
        raise BadInput(f"a picture is not valid base64 ({error})") from error


def _tool_names(tools: Any) -> list[str]:
    match tools:
        case [*told]:
            return [tool["function"]["name"] for tool in told]
        case _:
            return []
