"""The conversation of an agent: its opening and as many of its latest turns as fit into the model's context."""

from collections.abc import Sequence

from schemas.llm import Image, Message, Reply, ToolCall
from tasks.llm.prompt import delimit
from tasks.paperqa.actions import Observation
from tasks.paperqa.baseline import CHARACTERS_PER_TOKEN, IMAGE_TOKENS, Limits
from tasks.paperqa.call_forms import Call

SMALLER = 0.7
"""Share of its length that a conversation keeps when the endpoint finds it too long."""

LEAST_CHARACTERS = 1000
"""Characters of turns below which a conversation is not shortened again."""

Turn = tuple[Message, ...]


class Conversation:
    """What an agent has said and seen.

    Args:
        opening: The prompt; it is always sent.
        limits: Number of latest turns, and length of the whole in tokens, about.
    """

    def __init__(self, opening: Turn, limits: Limits) -> None:
        self._opening = opening
        self._window = limits.window
        self._room = limits.context_tokens * CHARACTERS_PER_TOKEN - _length(opening)
        self._turns: list[Turn] = []

    def add(self, call: Call | None, reply: Reply, shown: Observation) -> None:
        """Adds a turn: what the model said, and what it is shown in return."""
        told = delimit("observation", shown.text)
        pictures = (Message(role="user", content=("The picture asked for:", *shown.images)),) if shown.images else ()
        if call is not None and call.id is not None:
            made = ToolCall(id=call.id, name=call.name, arguments=call.arguments)
            asked = Message(role="assistant", content=reply.text, tool_calls=(made,), reasoning=reply.reasoning)
            answer = Message(role="tool", content=told, tool_call_id=call.id)
        else:
            asked = Message(role="assistant", content=reply.text, reasoning=reply.reasoning)
            answer = Message(role="user", content=told)
        self._turns.append((asked, answer, *pictures))

    def messages(self) -> Turn:
        """Returns the opening and the latest turns that fit, at least the last one."""
        return (*self._opening, *(message for turn in self._kept() for message in turn))

    def shorten(self) -> bool:
        """Makes room after the endpoint found the conversation too long: old turns go first, then the last one's text.

        Returns:
            Whether there was anything to leave out.
        """
        kept = self._kept()
        length = sum(map(_length, kept))
        if length <= LEAST_CHARACTERS:
            return False
        self._room = int(length * SMALLER)
        if len(kept) == 1:
            self._turns[-1] = _cut(kept[0], length - self._room)
        return True

    def _kept(self) -> Sequence[Turn]:
        room, kept = self._room, list[Turn]()
        for turn in reversed(self._turns[-self._window :]):
            room -= _length(turn)
            if room < 0 and kept:
                break
            kept.insert(0, turn)
        return kept


def _length(turn: Turn) -> int:
    """Returns the length of messages in characters; a picture counts as the text of as many tokens."""
    pieces = sum(
        IMAGE_TOKENS * CHARACTERS_PER_TOKEN if isinstance(piece, Image) else len(piece)
        for message in turn
        for piece in message.pieces
    )
    calls = sum(len(call.name) + len(call.arguments) for message in turn for call in message.tool_calls)
    return pieces + calls + sum(len(str(message.reasoning)) for message in turn if message.reasoning)


def _cut(turn: Turn, characters: int) -> Turn:
    """Returns a turn without its pictures, and with so many characters fewer of what the model was shown."""
    asked, answer, *_ = turn
    text = str(answer.content)
    begin, middle, end = text.partition("\n")[0], text.partition("\n")[2].rpartition("\n")[0], text.rpartition("\n")[2]
    kept = middle[: max(0, len(middle) - characters)]
    shown = f"{begin}\n{kept}\n{end}\n(cut here: the conversation is too long for the model)"
    return (asked, answer.model_copy(update={"content": shown}))
