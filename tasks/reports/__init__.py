"""Reports for people: one self-contained page per edition, and the same as Markdown, CSV and JSON.

What belongs here: sections, drawings and rendering. What does not: files for other tools (`tasks.exports`), means and
intervals (`tasks.stats`).
"""
