"""Pages of questions over papers: the question, each system's answer and its trajectory."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from tasks.reports.blocks import Cell, Label, TableBlock
from tasks.reports.names import spoken_name
from tasks.reports.sections.paperqa import RUNS, SCORES, scored_tags
from tasks.reports.source import ReportSource
from tasks.reports.systems import describe_system
from tasks.site.pages import Facts, Page, Part, SiteBlock, Text
from tasks.site.system_pages import made_facts
from tasks.site.topic_pages import short

Row = Mapping[str, Any]


def page_name(text: str) -> str:
    """Returns a file name for a foreign id."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class QuestionData:
    """Questions over papers with the runs that answered them."""

    source: ReportSource

    @cached_property
    def tags(self) -> list[str]:
        """Runs by name."""
        return scored_tags(self.source)

    @cached_property
    def questions(self) -> list[dict[str, Any]]:
        """Questions with their hidden parts."""
        dataset = self.source.datasets["questions"]
        hidden = {row["uuid"]: row for row in dataset.table("annotations").to_pylist()}
        return [hidden[row["uuid"]] | row for row in dataset.table().to_pylist()]

    @cached_property
    def answers(self) -> dict[str, dict[str, Row]]:
        """Answers by run and question."""
        return {tag: _by_uuid(self.source.datasets[RUNS + tag].table().to_pylist()) for tag in self.tags}

    @cached_property
    def scores(self) -> dict[str, dict[str, Row]]:
        """Scores by run and question."""
        return {tag: _by_uuid(self.source.datasets[SCORES + tag].table().to_pylist()) for tag in self.tags}

    @cached_property
    def steps(self) -> dict[str, dict[Any, pl.DataFrame]]:
        """Trajectories by run and question."""
        frames = {tag: pl.read_parquet(self.source.datasets[RUNS + tag].files("steps")) for tag in self.tags}
        return {
            tag: {key[0]: rows.sort("turn") for key, rows in frame.partition_by("uuid", as_dict=True).items()}
            for tag, frame in frames.items()
        }

    def label(self, tag: str) -> Label:
        """Returns the label of a run."""
        return describe_system(tag, self.source.datasets[RUNS + tag], page=f"answerers/{tag}").label


def _by_uuid(rows: list[dict[str, Any]]) -> dict[str, Row]:
    return {row["uuid"]: row for row in rows}


def question_pages(data: QuestionData) -> Iterator[Page]:
    """Yields the page of each question."""
    labels = {tag: data.label(tag) for tag in data.tags}
    for question in data.questions:
        uuid = question["uuid"]
        facts: dict[str, Cell] = {
            "Kinds": ", ".join(question["tags"]) or "-",
            "Papers that it names": ", ".join(question["anchor_pdf"]) or "-",
            "Searched": ", ".join(question["conference"]) or "-",
            "Id": uuid,
        }
        form = question["answer_format"] or "-"
        evaluator = json.dumps(json.loads(question["evaluator"]), ensure_ascii=False, indent=1)
        parts = [
            Part(
                "",
                (
                    Facts(facts),
                    Text("The question", question["question"]),
                    Text("Form of the answer", form),
                ),
            ),
            Part("Answers", (_answers(data, labels, uuid),)),
            Part("Evaluator, with the right answer", (Text("As the benchmark has it", evaluator),), open=False),
        ]
        parts += [
            Part(f"Trajectory of {labels[tag].text}", tuple(_trajectory(data, tag, uuid)), open=False)
            for tag in data.tags
            if uuid in data.steps[tag]
        ]
        yield Page(f"questions/{page_name(uuid)}", short(question["question"]), "A question over papers.", tuple(parts))


def _answers(data: QuestionData, labels: Mapping[str, Label], uuid: str) -> TableBlock:
    rows: list[tuple[Cell, ...]] = []
    for tag in data.tags:
        answer, score = data.answers[tag].get(uuid), data.scores[tag].get(uuid)
        if answer and score:
            spent = (answer["turns"], answer["cost_usd"] + score["cost_usd"])
            told = (short(answer["answer"]) or None, short(score["reason"] or answer["note"]) or None)
            rows.append((labels[tag], float(score["score"]), score["outcome"], *told, *spent))
    columns = ("System", "Score", "Outcome", "Answer", "Why", "Replies", "USD")
    return TableBlock("answers", "What each system answered", columns, tuple(rows))


def _trajectory(data: QuestionData, tag: str, uuid: str) -> Iterator[SiteBlock]:
    for step in data.steps[tag][uuid].iter_rows(named=True):
        yield Text(f"{step['turn']}. {step['action'] or 'no action'}", short(step["arguments"]))
        if step["observation"]:
            yield Text("What came back", short(step["observation"]))


def question_list(data: QuestionData) -> TableBlock:
    """Returns the table of all questions."""
    rows: list[tuple[Cell, ...]] = []
    for question in data.questions:
        uuid = question["uuid"]
        scores = [data.scores[tag][uuid]["score"] for tag in data.tags if uuid in data.scores[tag]]
        label = Label(short(question["question"]), page=f"questions/{page_name(uuid)}")
        rows.append((label, ", ".join(question["tags"]), float(sum(scores)), len(scores)))
    return TableBlock(
        "questions", "Questions, with the sum of their scores", ("Question", "Kinds", "Score", "Systems"), tuple(rows)
    )


def answerer_pages(data: QuestionData) -> Iterator[Page]:
    """Yields the page of each system that answers questions."""
    for tag in data.tags:
        made = data.source.datasets[RUNS + tag]
        settings = made.manifest.parameters
        model = settings.get("model") or {"model": "its own", "provider": "outside"}
        facts: dict[str, Cell] = {
            "Run": tag,
            "Model": f"{model['model']} of {model['provider']}",
            "Acts by": settings.get("protocol"),
            "Sees": "the papers that a question names" if settings.get("scope") == "named" else "all papers",
        }
        rows: list[tuple[Cell, ...]] = []
        for question in data.questions:
            if score := data.scores[tag].get(question["uuid"]):
                label = Label(short(question["question"]), page=f"questions/{page_name(question['uuid'])}")
                rows.append((label, float(score["score"]), score["outcome"], ", ".join(question["tags"])))
        table = TableBlock("questions", "Question by question", ("Question", "Score", "Outcome", "Kinds"), tuple(rows))
        parts = (Part("", (Facts(facts | made_facts(made)),)), Part("Questions", (table,)))
        yield Page(f"answerers/{tag}", spoken_name(tag), f"A system that answers questions: the run {tag}.", parts)
