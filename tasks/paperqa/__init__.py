"""AirQA: questions over AI papers, each with its own evaluator."""
