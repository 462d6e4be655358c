"""Search indexes over the documents of an edition: BM25 (tantivy), embeddings, dense (FAISS).

What belongs here: the stages that build an index of one field, and opening an index for search over all documents.

What does not: leakage filters, fusion and everything else that depends on a topic (`tasks.retrieval`).
"""
