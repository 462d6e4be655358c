"""Scores of a file of answers, and their averages over all questions and by tag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.errors import BadInput
from schemas.paperqa import AnnotatedExample
from tasks.paperqa.evaluators import ERROR_MARK, AnswerScore, Judge, score_answer
from tasks.stats.summaries import group_members


@dataclass(frozen=True)
class TagScore:
    """Sum of scores, number of questions, how many of them could be scored, and the mean over all (0 without any)."""

    correct: float
    count: int
    scored: int
    score: float


def score_answers(
    examples: Sequence[AnnotatedExample], answers: Mapping[str, object], judge: Judge | None = None
) -> dict[str, AnswerScore]:
    """Returns the score of each question by uuid, in the order of the examples.

    Args:
        examples: All questions of the benchmark; one without an answer scores 0.
        answers: Answer of a system by uuid; the text of a failed run (`[ERROR]:` in any letter case) scores 0.
        judge: Grades free text.

    Raises:
        BadInput: An answer belongs to no question, or an evaluator is unknown.

    Deviates: upstream pairs answers with questions by position.
    """
    strangers = sorted(answers.keys() - {example.uuid for example in examples})
    if strangers:
        raise BadInput(f"{len(strangers)} answers belong to no question, the first to {strangers[0]}: check the file")
    return {example.uuid: _score(example, answers, judge) for example in examples}


def _score(example: AnnotatedExample, answers: Mapping[str, object], judge: Judge | None) -> AnswerScore:
    if example.uuid not in answers:
        return AnswerScore(0.0, "no answer")
    answer = answers[example.uuid]
    if isinstance(answer, str) and answer[: len(ERROR_MARK)].upper() == ERROR_MARK:
        return AnswerScore(0.0, "the run failed, its answer is an error text")
    return score_answer(dict(example.evaluator), answer, judge)


def micro_average(examples: Sequence[AnnotatedExample], scores: Mapping[str, AnswerScore]) -> dict[str, TagScore]:
    """Returns the averages over all questions and by tag: `all` first, then tags by name.

    A question counts once for each of its tags, so the counts of element tags do not add up to the number of questions.

    Args:
        examples: All questions of the benchmark: the denominators.
        scores: Score by uuid; a question without one counts as 0.
    """
    return {
        group: _counter([example for example, member in zip(examples, members, strict=True) if member], scores)
        for group, members in group_members([example.tags for example in examples]).items()
    }


def _counter(examples: Sequence[AnnotatedExample], scores: Mapping[str, AnswerScore]) -> TagScore:
    found = [scores[example.uuid] for example in examples if example.uuid in scores]
    correct = sum(score.score for score in found)
    scored = sum(score.failure is None for score in found)
    return TagScore(correct, len(examples), scored, correct / len(examples) if examples else 0.0)
