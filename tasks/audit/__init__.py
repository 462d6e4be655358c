"""Samples of an edition for people to check, and what their answers say."""
