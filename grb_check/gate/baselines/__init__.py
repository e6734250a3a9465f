"""Comparing a run with one that is kept: files, tests, verdicts."""
