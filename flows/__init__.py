"""The command line and the Prefect flows: when, where and how often stages run.

What belongs here: the command line (`cli`, `commands`), Prefect (`jobs`, `server`), and what both share (`pipeline`).
What does not: what a stage does (`tasks`) and what its data are (`schemas`).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""numpy multiplies with one thread: its others spin between products. Large products are PyTorch's and FAISS's."""

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
"""Threads of torch, FAISS and scikit-learn sleep while they wait for each other.

They would spin, which made encoding forty times as slow on a busy machine. The libraries read this when they are
loaded, which is later.
"""
