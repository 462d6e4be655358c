"""Synthetic data for the demo and the tests: a small release of invented papers, and a stand-in for a language model.

Nothing in the product imports this room, apart from the commands that offer it.
"""
