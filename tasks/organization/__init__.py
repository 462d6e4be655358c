"""The organization task: mind-maps built from references, and their scores.

What belongs here: builders (one file each in `builders`), the stages `organize` and `tree_scores`. What does not: gold
mind-maps (`tasks.corpus`), tree distances (`tasks.metrics.trees`).
"""
