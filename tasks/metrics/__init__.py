"""Measures of rankings, headings and trees, with their sources and parameters.

What belongs here: functions of rankings, labels and trees. What does not: reading datasets and means over topics (the
rooms of the tasks, `tasks.stats`).
"""
