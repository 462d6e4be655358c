"""Discovery and selection: running systems on topics and scoring their rankings.

What belongs here: baselines (one file each in `baselines`), code that several of them share (`agents`, `expansion`),
the stages `run` and `scores`. What does not: searching (`tasks.retrieval`), the measures (`tasks.metrics.ranking`).
"""
