"""The doors of the served desk: REST and MCP, over one service.

What belongs here: routes, headers, tokens in requests, the forms of errors, OpenAPI, and the process that listens.
FastAPI, uvicorn and mcp are imported here alone. What does not: what a call does (`tasks.service`).
"""
