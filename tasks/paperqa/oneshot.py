"""Answering in one call: the question with some material, and the answer taken out of the reply."""

import re
from collections.abc import Sequence

from schemas.llm import Parameters
from schemas.paperqa import Question
from tasks.paperqa.baseline import Answered, Kit, Step
from tasks.paperqa.paper_library import Passage

_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(?P<lines>.*?)^[ \t]*```[ \t]*$|```(?P<inline>[^`\n]+)```", re.M | re.S)


def answer_in_one_call(
    question: Question, kit: Kit, material: Sequence[str] | None, titles: Sequence[str] = (), looked: Step | None = None
) -> Answered:
    """Asks once.

    Args:
        question: The question.
        kit: What the system has.
        material: Texts put before the question; empty: the model is told that there is none; None: nothing is said.
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
        return Answered(None, "refused" if reply.outcome == "refused" else "failed", reply.reason, steps)
    return Answered(read_fenced(reply.text), steps=steps)


def read_fenced(reply: str) -> str:
    """The content of a reply's last fenced block, its language tag dropped; the whole reply where there is none.

    Deviates: upstream pairs fences anywhere and takes the first word of a fence on one line for a language tag.
    """
    blocks = list(_BLOCK.finditer(reply))
    if not blocks:
        return reply.strip()
    last = blocks[-1]
    return (last["lines"] if last["inline"] is None else last["inline"]).strip()


def show_passage(passage: Passage) -> str:
    """A passage with where it stands, as a model reads it."""
    where = [passage.title, passage.section, f"page {passage.page}" if passage.page else None, passage.kind]
    return f"{' | '.join(part for part in where if part)} | paper {passage.paper_id}\n{passage.text}"
