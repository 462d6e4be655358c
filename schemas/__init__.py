"""What things are: tables, records, manifests, settings, errors.

What belongs here: declarations that need only the standard library, pydantic and pyarrow. What does not: reading files,
talking to services, any work (`tasks`).
"""
