"""Synthetic data for the demo and the tests: a small release of invented papers, and a stand-in for a language model.

What belongs here: everything that is invented; equal settings give equal bytes.

What does not: anything the product needs. Only the commands that offer the demo import this room.
"""
