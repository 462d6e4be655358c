"""Editions for other tools: tables for Polars and DuckDB, and files in registered formats.

What belongs here: opening an edition for reading, and one exporter for each format. What does not: pages for people
(`tasks.reports`).
"""
