"""Scores of runs: measures per topic, means with intervals, comparisons."""
