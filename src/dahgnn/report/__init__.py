"""Reports on fits and experiments: summaries, significance tests, tables, charts and pages."""
