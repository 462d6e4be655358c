"""From a release to the corpus of an edition: records, papers, surveys, references, documents, topics, mind-maps.

What belongs here: these stages and `statistics`, with what they share (record formats, external sort, deduplication,
DuckDB sessions), the survey selectors (`survey_selectors/`) and the extraction of figures (`figures/`).

What does not: downloading and decoding release files (`tasks.release`), search indexes (`tasks.index`), and anything
that searches or scores (`tasks.retrieval` and the benchmark rooms).
"""
