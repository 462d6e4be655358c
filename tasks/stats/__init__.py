"""Statistics alone: confidence intervals, paired comparisons, agreement between judges.

What belongs here: functions of numbers. What does not: reading datasets and scoring systems (the rooms of the tasks).
"""
