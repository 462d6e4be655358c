"""The Prefect flows, and the one place where a stage becomes a Prefect task.

What belongs here: `@flow` functions, states of tasks, artifacts, events, limits. What does not: which stages run
(`flows.pipeline.plans`) and how they are executed without a server (`flows.pipeline.walk`).
"""
