"""Paper Lantern: queries, engines, pooled results, relevance judgments and scores of search engines.

What belongs here: engines and judges (one file each in `engines` and `judges`), the stages of the search benchmark.
What does not: the retrievers that the project itself offers (`tasks.retrieval`).
"""
