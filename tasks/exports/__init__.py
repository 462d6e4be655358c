"""Files for other tools: TREC runs and qrels, one exporter class a format."""
