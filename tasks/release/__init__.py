"""Semantic Scholar releases: local mirrors, record readers, and a synthetic release in the true file format."""
