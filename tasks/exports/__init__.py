"""Editions for other tools: tables for Polars and DuckDB, and files, one exporter class a format."""
