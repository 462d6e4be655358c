"""What is done: plain typed functions and small classes.

What belongs here: stages, systems, measures and the store, in the order of a paper's way. What does not: Prefect,
environment variables and global clients (`flows`).
"""
