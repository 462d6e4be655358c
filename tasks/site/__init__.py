"""The site: leaderboards of all editions as static pages, with a page for each topic, system, question and query.

What belongs here: which pages there are, and what drills down. What does not: tables, drawings and words that the
report has too (`tasks.reports`), and files for other tools (`tasks.exports`).
"""
