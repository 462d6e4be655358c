"""Survey verdicts: decides like the offline selector `rules`."""

from tasks.corpus.survey_selector import Candidate, SurveyAnswer
from tasks.corpus.survey_selectors.rules import RuleSelector
from tasks.demo.standin.rule import Asked, answers


@answers("survey_verdict")
def survey_verdict(asked: Asked) -> SurveyAnswer:
    """Returns the verdict and the reason of the rules for the same title and abstract."""
    (verdict,) = RuleSelector().select([Candidate(0, asked.first("title"), asked.first("abstract") or None)])
    return SurveyAnswer(reason=verdict.reason, survey=verdict.accepted)
