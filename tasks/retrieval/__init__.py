"""Search on behalf of a topic: retrievers, the leakage filter, fusion, and the research desk.

What belongs here: the retriever interface and its engines, the filter that keeps leakage out of every search, and the
desk through which a system under test searches and reads.

What does not: building indexes (`tasks.index`) and the systems that search (`tasks.ranking`, `tasks.organization`).
"""
