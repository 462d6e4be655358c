"""The pipeline of an edition without a server: plans, the walk over their steps, reruns, status.

What belongs here: everything that the command line and the flows share. What does not: Prefect (`flows.jobs`,
`flows.server`), printing (`flows.commands`).
"""
