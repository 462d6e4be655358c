"""Builders of mind-maps, one file each; each sees a topic and its references, nothing else."""
