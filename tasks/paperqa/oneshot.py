"""Answers in one call: sends the question with material and extracts the answer from the reply."""

import re
from collections.abc import Sequence

from schemas.llm import UNANSWERED, Parameters
from schemas.paperqa import Question
from tasks.paperqa.baseline import Answered, Kit, Step
from tasks.paperqa.paper_library import Passage

_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(?P<lines>.*?)^[ \t]*```[ \t]*$|```(?P<inline>[^`\n]+)```", re.M | re.S)


def answer_in_one_call(
    question: Question, kit: Kit, material: Sequence[str] | None, titles: Sequence[str] = (), looked: Step | None = None
) -> Answered:
    """Asks the model once.

    Args:
        question: The question.
        kit: The system's kit.
        material: Texts before the question. If empty, the prompt says that there are none; if None, it says nothing.
        titles: Titles of the papers that the question names.
        looked: How the material was found, for the trajectory.
    """
    values = {
        "question": question.question,
        "answer_format": question.answer_format,
        "titles": list(titles),
        "conferences": list(question.conference) if material is not None else [],
        "has_material": material is not None,
        "material": list(material or ()),
    }
    parameters = Parameters(max_tokens=kit.limits.written_tokens)
    reply = kit.asker.ask("airqa_answer", values, parameters=parameters)
    steps = (*([looked] if looked else []), Step("answer", reply.text, ""))
    if reply.outcome != "ok":
        return Answered(None, UNANSWERED[reply.outcome], reply.reason, steps)
    return Answered(read_fenced(reply.text), steps=steps)


def read_fenced(reply: str) -> str:
    """Returns the content of a reply's last fenced block without its language tag, or the whole reply if it has none.

    Deviates: upstream pairs fences anywhere, and treats the first word of a one-line fence as a language tag.
    """
    blocks = list(_BLOCK.finditer(reply))
    if not blocks:
        return reply.strip()
    last = blocks[-1]
    return (last["lines"] if last["inline"] is None else last["inline"]).strip()


def show_passage(passage: Passage) -> str:
    """Formats a passage and its location for a model."""
    where = [passage.title, passage.section, f"page {passage.page}" if passage.page else None, passage.kind]
    return f"{' | '.join(part for part in where if part)} | paper {passage.paper_id}\n{passage.text}"
