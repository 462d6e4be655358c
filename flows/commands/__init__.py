"""The commands of `arena`, one file for each group; `flows.cli` names them.

What belongs here: options, printing, and the demo. What does not: which stages run and how (`flows.pipeline`), Prefect
(`flows.jobs`, `flows.server`).
"""
