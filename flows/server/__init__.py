"""Setting up Prefect: the deployments, pools, limits and automations, and a local server for the demo and the UI."""
