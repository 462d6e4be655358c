"""AirQA: questions over AI papers, each with its own evaluator.

What belongs here: questions, the library of papers, systems (one file each in `baselines`), evaluators and scores. What
does not: indexes (`tasks.index`), calls to models (`tasks.llm`).
"""
