"""Content-addressed datasets: built once, verified, named by editions, collected when nothing reaches them."""
