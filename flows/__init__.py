"""The command line and the Prefect flows: when, where and how often stages run.

What belongs here: the command line (`cli`, `commands`), Prefect (`jobs`, `server`), and what both share (`pipeline`).
What does not: what a stage does (`tasks`) and what its data are (`schemas`).
"""
