"""Summaries, tests, tables, charts and pages."""
