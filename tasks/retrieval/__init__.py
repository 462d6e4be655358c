"""Searching: the retriever protocol, the leakage filter, fusion, and the desk that a system searches through."""
