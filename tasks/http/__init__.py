"""Outgoing HTTP: the one client, when to try again, how fast to ask, how much to read.

What a service means by its replies belongs to the room that asks it. Language models are asked through `tasks.llm`,
whose library brings its own client; it shares the retry rules.
"""
