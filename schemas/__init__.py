"""What things are: tables, records, manifests, settings, errors.

Imports the standard library, pydantic and pyarrow; nothing here reads files, talks to a service or starts work.
"""
