"""All calls to language models: request key, replay file, cache, budget, rate limit, provider, structured output.

What belongs here: everything between a filled prompt and a parsed reply, and the prompt files. What does not: what is
asked and why (the rooms of the tasks).
"""
