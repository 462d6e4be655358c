"""Runs of systems from outside: what they may hand in, how it is checked, and how it becomes datasets like our own.

What belongs here: the tasks as a system from outside is told them, the rules that a ranking, a tree or an answer is
checked by, whether it came in a file or through the served desk, and the stages that write it as a run, as trees or as
answers. What does not: the scores (`tasks.ranking`, `tasks.organization`, `tasks.paperqa`), and the server.
"""
