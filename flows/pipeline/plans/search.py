"""The steps of the search benchmark: queries, engines, judges, scores, report."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from flows.pipeline.plans.steps import Step, encoder_mark, limit_mark, stemming_mark
from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.messages import hide_queries
from schemas.release import ReleaseDataset
from schemas.search import EngineSettings, JudgeSettings, SearchSettings, has_password
from schemas.settings import EncoderSettings, Stemming
from tasks.reports.report import ReportSettings
from tasks.reports.search_report import search_report
from tasks.search.engine import RegisteredEngine, WebAccess, find_engine
from tasks.search.judge import find_judge, thinking_field
from tasks.search.judge_agreement import JUDGMENTS, AgreementSettings, agreement
from tasks.search.judgments import RESULTS, judge
from tasks.search.queries import QuerySettings, name_test_set, open_result_file, search_queries
from tasks.search.results import with_web
from tasks.search.scores import SearchScoreSettings, search_scores

MOST_LETTERS = 80
"""A longer name, joined from the names of the test sets, is cut and gets a digest."""


@dataclass(frozen=True)
class SearchSlots:
    """Slots of an edition for one set of query files, so that several sets fit into one edition.

    Attributes:
        prefix: `search/<names of the test sets>`.
    """

    prefix: str

    @classmethod
    def of(cls, queries: ReleaseDataset) -> "SearchSlots":
        """Returns the slots for these files."""
        name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", "+".join(name_test_set(file.name) for file in queries.files))
        return cls(f"search/{name if len(name) <= MOST_LETTERS else f'{name[:60]}-{queries.digest[:8]}'}")

    @property
    def queries(self) -> str:
        """Slot of the queries."""
        return f"{self.prefix}/queries"

    @property
    def agreement(self) -> str:
        """Slot of the judges' agreement."""
        return f"{self.prefix}/agreement"

    @property
    def report(self) -> str:
        """Slot of the report."""
        return f"{self.prefix}/report"

    def results(self, engine: str) -> str:
        """Returns the slot of an engine's results."""
        return f"{self.prefix}/results/{engine}"

    def judgments(self, judge: str) -> str:
        """Returns the slot of a judge's judgments."""
        return f"{self.prefix}/judgments/{judge}"

    def scores(self, judge: str) -> str:
        """Returns the slot of the engines' scores by a judge's judgments."""
        return f"{self.prefix}/scores/{judge}"


class Choice(NamedTuple):
    """A requested engine: the registered one, the file or address it reads, and its own name."""

    engine: RegisteredEngine
    source: str
    label: str | None


def read_choice(text: str) -> Choice:
    """Reads `[NAME=]ENGINE[:SOURCE]`.

    Raises:
        UsageError: There is no such engine, or it lacks its file or address.
    """
    named = re.fullmatch(r"(?:(?P<label>[A-Za-z0-9_][A-Za-z0-9_.-]*)=)?(?P<engine>\w+)(?::(?P<source>.+))?", text)
    if named is None:
        raise UsageError(f"engine {text!r}: write ENGINE, ENGINE:SOURCE or NAME=ENGINE:SOURCE")
    engine, source = find_engine(named["engine"]), named["source"] or ""
    if (engine.name in ("file", "url")) != bool(source):
        raise UsageError(f"engine {text!r}: write file:PATH or url:ADDRESS; other engines take nothing after the colon")
    if engine.name == "url" and has_password(source):
        raise UsageError(
            f"engine {engine.name}:{hide_queries(source)}: an address must hold no user and password, which would be "
            "stored; set ARENA_URL_ENGINE_KEY"
        )
    return Choice(engine, source, named["label"])


def needs_edition(settings: SearchSettings) -> bool:
    """Returns whether one of the engines searches an edition."""
    return any(read_choice(text).engine.parts for text in settings.engines)


def plan_engines(
    settings: SearchSettings,
    queries: ReleaseDataset,
    encoder: EncoderSettings | None,
    access: WebAccess,
    stemming: Stemming = "none",
) -> list[Step]:
    """Returns the steps that read the queries and send them to every engine.

    Args:
        settings: Which engines to ask.
        queries: Query files.
        encoder: Encoder of the field's embeddings; None: there are none.
        access: API keys and contact address for services on the web.
        stemming: How the field's BM25 index reduces words.

    Raises:
        UsageError: There is no such engine, or two would have the same name.
    """
    slots, stage = SearchSlots.of(queries), with_web(access)
    steps = [Step(slots.queries, search_queries, QuerySettings(), {"files": queries})]
    for text in settings.engines:
        chosen, inputs = _engine(settings, read_choice(text), encoder, stemming)
        step = Step(slots.results(chosen.tag), stage, chosen, {"queries": slots.queries, **inputs})
        if step.slot in {other.slot for other in steps}:
            raise UsageError(f"engine {text!r}: another one is named {step.slot.rpartition('/')[2]}; write NAME={text}")
        steps.append(step)
    return steps


def _engine(
    settings: SearchSettings, choice: Choice, encoder: EncoderSettings | None, stemming: Stemming
) -> tuple[EngineSettings, dict[str, str | ReleaseDataset]]:
    """Returns an engine's settings, and its inputs besides the queries."""
    engine = choice.engine
    tag = _engine_tag(settings, choice, encoder, stemming)
    chosen = EngineSettings(
        engine=engine.name,
        engine_version=engine.version,
        source=choice.source if engine.name == "url" else "",
        field=settings.field if engine.parts else None,
        depth=settings.depth,
        limit_queries=settings.limit_queries,
        snapshot=settings.snapshot if engine.live else "",
        tag=tag,
    )
    inputs: dict[str, str | ReleaseDataset] = {}
    if engine.parts:
        inputs |= {"documents": "documents", "surveys": "surveys"}
        inputs |= {part: f"{part}/{settings.field}" for part in engine.parts}
    if engine.name == "file":
        inputs["recorded"] = open_result_file(Path(choice.source))
    return chosen, inputs


def _engine_tag(settings: SearchSettings, choice: Choice, encoder: EncoderSettings | None, stemming: Stemming) -> str:
    """Returns `<engine>`, `<engine>.<field>`, `file.<name>`, `url.<host>` or the given name, then marks.

    The marks are `+<encoder>` unless it is the production encoder, `+stemmed` for a stemmed BM25 index, `@<depth>`
    unless it is 20, and `-first<n>` when the queries are limited.
    """
    engine = choice.engine
    tag = engine.name
    if engine.parts:
        tag += f".{settings.field}"
    if choice.source:
        where = Path(choice.source).stem if engine.name == "file" else urlsplit(choice.source).hostname or ""
        tag += "." + re.sub(r"[^A-Za-z0-9_.-]+", "-", where)
    tag = choice.label or tag
    if "embeddings" in engine.parts and encoder:
        tag += encoder_mark(encoder)
    if "bm25" in engine.parts:
        tag += stemming_mark(stemming)
    return tag + _depth_and_limit(settings)


def _depth_and_limit(settings: SearchSettings) -> str:
    depth = "" if settings.depth == 20 else f"@{settings.depth}"
    return depth + limit_mark(settings.limit_queries)


def judge_settings(
    settings: SearchSettings, engines: tuple[str, ...], choose_model: Callable[[str | None], ModelName]
) -> list[JudgeSettings]:
    """Returns the settings of every judge of the papers that these engines return.

    Args:
        settings: Which judges to ask.
        engines: Tags of the engines; an earlier engine's text of a paper is preferred.
        choose_model: Returns the model of that name, or the machine's.

    Raises:
        UsageError: There is no such judge, or no model is set up.
    """
    chosen: list[JudgeSettings] = []
    for text in settings.judges:
        name, _, model = text.partition(":")
        who, asked = find_judge(name), choose_model(model or settings.model)
        repeats = "" if settings.attempts == 1 else f".x{settings.attempts}"
        chosen.append(
            JudgeSettings(
                judge=name,
                judge_version=who.version,
                model=asked,
                engines=engines,
                depth=settings.depth,
                attempts=settings.attempts,
                thinking=thinking_field(asked) if settings.thinking == "auto" else settings.thinking,
                seed=settings.seed,
                tag=f"{name}{repeats}+{asked.short}{_depth_and_limit(settings)}",
            )
        )
    return chosen


def plan_judging(
    settings: SearchSettings,
    slots: SearchSlots,
    judges: list[JudgeSettings],
    labels: ReleaseDataset | None,
    page: ReportSettings,
) -> list[Step]:
    """Returns the steps that judge the results, score the engines, compare the judges and write the report.

    Args:
        settings: Limits and resampling.
        slots: Where the queries and the engines' results are.
        judges: From `judge_settings`.
        labels: A sheet that people filled in.
        page: Title of the report.
    """
    queries = {"queries": slots.queries}
    results = {RESULTS + tag: slots.results(tag) for tag in judges[0].engines}
    rule = SearchScoreSettings(limit_queries=settings.limit_queries, seed=settings.seed, resamples=settings.resamples)
    steps = [Step(slots.judgments(who.tag), judge, who, {**queries, **results}) for who in judges]
    steps += [
        Step(
            slots.scores(who.tag),
            search_scores,
            rule,
            {**queries, "judgments": slots.judgments(who.tag), **results},
        )
        for who in judges
    ]
    judged = {JUDGMENTS + who.tag: slots.judgments(who.tag) for who in judges}
    scored = {f"search_scores:{who.tag}": slots.scores(who.tag) for who in judges}
    sheet = {"labels": labels} if labels else {}
    shown = {**queries, "agreement": slots.agreement, **judged, **scored, **results}
    return [
        *steps,
        Step(slots.agreement, agreement, AgreementSettings(), {**judged, **sheet}),
        Step(slots.report, search_report, page, shown),
    ]
