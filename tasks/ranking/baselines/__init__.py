"""Systems under test, one file each; each sees a topic and a research desk, nothing else."""
