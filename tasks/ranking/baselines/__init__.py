"""Systems under test, one file each. A system sees its topic and a research desk, nothing else."""
