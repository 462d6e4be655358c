"""The one door to language models: request key, replay, cache, budget, rate limit, provider, structured output."""
