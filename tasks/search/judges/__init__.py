"""Relevance judges, one file each."""
