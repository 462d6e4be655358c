"""The steps that run systems on an edition's topics and score the runs."""

from collections.abc import Callable, Sequence
from hashlib import sha256

from flows.pipeline.plans.steps import (
    Engine,
    Step,
    check_sample,
    encoder_mark,
    lsa_mark,
    same_names,
    sample_mark,
    stemming_mark,
)
from schemas.errors import UsageError
from schemas.llm import ModelName
from schemas.settings import RunSettings, TopicSubset
from tasks.ranking.baseline import find_baseline
from tasks.ranking.runs import SystemSettings, run
from tasks.ranking.scores import ScoreSettings, scores

ChooseModel = Callable[[str | None], ModelName]
"""Returns a model by its name; None: the model of the run."""


def run_tag(baseline: str, engine: Engine, settings: RunSettings, model: ModelName | None = None) -> str:
    """Returns the name of a run: `<baseline>.<retriever>.<field>`, followed by marks for everything unusual.

    The marks are `@<cutoff>` unless it is 100, `+<encoder>` unless it is the production encoder, `+stemmed` for a
    stemmed BM25 index, `+lsa<n>` of a latent semantic index unless n is 300, `+<kind>` of an approximate index,
    `+<model>` that the baseline asks, `+own-<hash>` of settings that the baseline alone has, `-first<n>` when the
    topics are limited, and `-sample<n>` for a sample of them, followed by `s<seed>` unless the seed is 42.
    """
    tag = f"{baseline}.{engine.retriever}.{engine.field}"
    if settings.cutoff != 100:
        tag += f"@{settings.cutoff}"
    if engine.encoder:
        tag += encoder_mark(engine.encoder)
    tag += stemming_mark(engine.stemming) + lsa_mark(engine.dimensions)
    if engine.ann:
        tag += f"+{engine.ann}"
    if model:
        tag += f"+{model.short}"
    if own := settings.own.get(baseline.partition(".")[0]):
        tag += f"+own-{sha256(own.model_dump_json().encode()).hexdigest()[:6]}"
    return tag + sample_mark(settings.subset_of(baseline.partition(".")[0]))


def plan_run(
    name: str, engine: Engine, settings: RunSettings, model: ModelName | None, *, oracle: bool = False
) -> Step:
    """Returns the step that runs one baseline with one engine.

    With `oracle` the baseline finds only the survey's own references, on topics that have a mind-map. Such a run yields
    outlines and is not a result.

    Raises:
        UsageError: There is no such baseline.
    """
    tag = run_tag(f"{name}.oracle" if oracle else name, engine, settings, model)
    baseline = find_baseline(name)
    system = SystemSettings(
        own=settings.own.get(name),
        baseline=name,
        baseline_version=baseline.version,
        retriever=engine.retriever,
        field=engine.field,
        cutoff=settings.cutoff,
        **settings.subset_of(name).model_dump(),
        references="oracle" if oracle else "corpus",
        model=model,
        tag=tag,
    )
    slot = f"outlines/{tag}" if oracle else f"run/{tag}"
    maps = same_names("mindmaps") if oracle else {}
    edges = same_names("edges") if baseline.graph else {}
    return Step(slot, run, system, same_names("topics", "documents", "surveys") | engine.inputs | edges | maps)


def plan_runs(settings: RunSettings, engines: Sequence[Engine], choose_model: ChooseModel) -> list[Step]:
    """Returns the steps that run every baseline with every engine, then those that score the runs.

    Args:
        settings: Which systems run.
        engines: What they search with.
        choose_model: Returns the model to ask, the run's or another one by its name; called only when a baseline asks
            one.

    Raises:
        UsageError: There is no such baseline, it asks a model and none is set up, or a sample is for other systems.
    """
    check_sample(settings, settings.baselines)
    if unknown := sorted(settings.own.keys() - set(settings.baselines)):
        raise UsageError(
            f"--own has settings of {', '.join(unknown)}, and the systems to run are {', '.join(settings.baselines)}"
        )
    runs: list[Step] = []
    scored: list[Step] = []
    for name in settings.baselines:
        own = settings.own.get(name)
        model = choose_model(own.model if own else None) if find_baseline(name).asks else None
        made = [plan_run(name, engine, settings, model) for engine in engines]
        runs += made
        scored += [plan_scores(step.slot, settings.subset_of(name)) for step in made]
    return runs + scored


def plan_scores(run_slot: str, subset: TopicSubset) -> Step:
    """Returns the step that scores the run in a slot, over the topics that it was made for."""
    rule = ScoreSettings.model_validate(subset.model_dump())
    return Step(run_slot.replace("run/", "scores/", 1), scores, rule, {"run": run_slot, "topics": "topics"})
