"""Semantic Scholar releases: fetching, checking and reading them.

What belongs here: the API client, downloads, the local mirror, the gate, decoding of records. What does not: tables
made from the records (`tasks.corpus`), invented releases (`tasks.demo`).
"""
