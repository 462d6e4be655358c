"""Sets up Prefect: deployments, pools, limits and automations, and a local server for the demo and the UI.

What belongs here: everything that talks to a Prefect server outside a flow run. What does not: flows (`flows.jobs`).
"""
