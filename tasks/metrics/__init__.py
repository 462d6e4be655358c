"""Measures, one file each: what it is, its source, its parameters. They import `schemas` and nothing else of ours."""
