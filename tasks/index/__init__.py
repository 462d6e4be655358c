"""Search indexes over the documents of an edition: BM25 (tantivy), embeddings, dense (FAISS)."""
