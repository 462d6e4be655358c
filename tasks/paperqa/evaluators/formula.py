"""The evaluator of mathematical formulas."""

from dataclasses import dataclass

from tasks.paperqa.evaluators.judged import JudgedOptions, ask_verdict, bulleted, order_rule, stripped_texts
from tasks.paperqa.evaluators.registry import Flag, Judge, TextOrTexts, evaluator


@dataclass(frozen=True, kw_only=True)
class Formulas(JudgedOptions):
    """Options of `eval_complex_math_formula_with_llm`: LaTeX, one formula or several."""

    formulas: TextOrTexts
    ignore_order: Flag = True

    def own_answer(self) -> object:
        """Returns all formulas, one per line."""
        return "\n".join(stripped_texts(self.formulas))


@evaluator("eval_complex_math_formula_with_llm", "formula", Formulas)
def complex_math_formula(answer: object, options: Formulas, judge: Judge | None) -> bool:
    """Returns whether the judge finds every formula, or an equivalent one, in the answer."""
    formulas = stripped_texts(options.formulas)
    shown = bulleted(formulas) if isinstance(options.formulas, list) else formulas[0]
    material = {"formulas": shown, "number": str(len(formulas)), "order": order_rule(options.ignore_order)}
    return ask_verdict("formula", answer, options, judge, **material)
