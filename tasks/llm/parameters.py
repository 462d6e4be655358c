"""How the questions of each prompt are asked: temperature, seed and the most tokens of an answer, in one place.

What an endpoint does not take is left out by its profile (`tasks.llm.profiles`).
"""

from collections.abc import Mapping

from schemas.llm import Parameters

DETERMINISTIC = Parameters()
"""Temperature 0 and seed 42, as in the ResearchArena paper."""

_MOST_TOKENS: Mapping[str, int] = {
    "caption_triage": 300,
    "decomposer": 1024,
    "few_shot_map": 1024,
    "figure_tree": 8_000,  # enough for a few hundred topics
    "storm_answer": 500,
    "storm_outline": 400,
    "storm_outline_improved": 400,
    "storm_personas": 500,
    "storm_queries": 500,
    "storm_question": 500,
    "survey_verdict": 300,
}


def parameters_of(prompt: str) -> Parameters:
    """Returns the parameters of a prompt by its id; `DETERMINISTIC` for one that has none of its own."""
    return PARAMETERS.get(prompt, DETERMINISTIC)


PARAMETERS: Mapping[str, Parameters] = {
    name: DETERMINISTIC.model_copy(update={"max_tokens": most}) for name, most in _MOST_TOKENS.items()
}
