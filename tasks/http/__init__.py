"""Outgoing HTTP: the one client, its retries, its pace and its limits.

What belongs here: everything that all services share. What does not: what a service means by its replies (the room that
asks it), language models (`tasks.llm`, whose library brings its own client and shares the retry rules).
"""
