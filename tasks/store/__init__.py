"""Content-addressed datasets: built once, verified, named by editions, collected when no edition needs them.

What belongs here: keys, locks, shards, Parquet files, manifests, editions, the declaration of stages. What does not:
what any stage computes.
"""
