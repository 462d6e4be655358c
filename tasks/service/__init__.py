"""The desk as foreign systems are served it: runs, leased topics, calls within quotas, and the record of every call.

What belongs here: everything behind a call but the protocol. REST and MCP (`flows.service`) are two ways to the same
functions. What does not: the rules of a submission (`tasks.submissions`) and searching (`tasks.retrieval`).
"""
