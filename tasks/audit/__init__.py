"""Sheets on which people check samples of an edition, and the evaluation of their answers.

What belongs here: drawing samples, writing sheets, reading answers. What does not: judging by a model
(`tasks.search.judges`).
"""
