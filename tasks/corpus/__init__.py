"""The corpus stages: papers, surveys, references, documents, topics with qrels, statistics."""
